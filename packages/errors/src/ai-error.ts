import { ApiError } from './api-error.ts'

/** The kinds of failure that clients of the chat-completions layout know. */
export type AiErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'insufficient_quota'
  | 'api_error'

/**
 * A failure in the words of the AI gateway. code: what clients branch on. param: the member of the request that is to blame,
 * as `messages[0].role`.
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
