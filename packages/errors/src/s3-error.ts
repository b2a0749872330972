import { ApiError } from './api-error.ts'

/**
 * A failure in S3's format. code: S3's own, which clients branch on. details: further elements of the error document by name,
 * after Code and Message.
 */
export class S3Error extends ApiError {
  readonly code: string
  readonly details: Readonly<Record<string, string>>

  constructor(
    status: number,
    code: string,
    message: string,
    { details = {}, headers = {} }: { details?: Record<string, string>; headers?: Record<string, string> } = {},
  ) {
    super(status, message, { headers })
    this.code = code
    this.details = details
  }
}
