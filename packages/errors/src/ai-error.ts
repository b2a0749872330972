import { ApiError } from './api-error.ts'

/** The error types that clients of the chat-completions API know. */
export type AiErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'insufficient_quota'
  | 'api_error'

/**
 * A failure in the AI gateway's format. code: what clients branch on. param: the offending member of the request, for example
 * `messages[0].role`.
 */
export class AiError extends ApiError {
  readonly type: AiErrorType
  readonly code: string | null
  readonly param: string | null

  constructor(
    status: number,
    type: AiErrorType,
    code: string | null,
    message: string,
    { param = null, ...options }: { param?: string | null; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(status, message, options)
    this.type = type
    this.code = code
    this.param = param
  }
}
