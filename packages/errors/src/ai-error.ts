import { ApiError } from './api-error.ts'

/** The error types that clients of the chat-completions API know. */
export type AiErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'insufficient_quota'
  | 'api_error'

interface AiErrorOptions {
  param?: string | null
  headers?: Record<string, string>
  cause?: unknown
  told?: string | undefined
}

/**
 * A failure in the AI gateway's format. code: what clients branch on. param: the offending member of the request, for example
 * `messages[0].role`. told: what its caller reads in place of `message`, where that holds somebody else's words, which no log may
 * have.
 */
export class AiError extends ApiError {
  readonly type: AiErrorType
  readonly code: string | null
  readonly param: string | null
  // Loggers write the members of an error, but no private ones.
  readonly #told: string | undefined

  constructor(
    status: number,
    type: AiErrorType,
    code: string | null,
    message: string,
    { param = null, told, ...options }: AiErrorOptions = {},
  ) {
    super(status, message, options)
    this.type = type
    this.code = code
    this.param = param
    this.#told = told
  }

  /** The message for the caller. */
  get told(): string {
    return this.#told ?? this.message
  }
}
