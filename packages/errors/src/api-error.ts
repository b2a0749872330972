/**
 * The platform's documented failures. The class fixes the status; the message is for a person and never contains an internal or
 * a secret. Machine-readable codes (OAuth, the AI gateway, S3) are derived in render-error.ts.
 * Source: A §7, B §7.
 */
export class ApiError extends Error {
  readonly status: number
  /** Headers of the error response, in lower case. */
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, message: string, options?: { headers?: Record<string, string>; cause?: unknown }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.status = status
    this.headers = options?.headers ?? {}
  }
}

/** 400: an invalid value that a schema cannot detect (A §7, D15). */
export class BadRequest extends ApiError {
  constructor(message: string) {
    super(400, message)
  }
}

/** Restricts text to what a header's quoted-string may contain: printable ASCII without quote and backslash (RFC 6750 §3). */
const quotable = (text: string): string => text.replaceAll(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, '?')

/** 401 with a Bearer challenge of invalid_token; the body repeats the description (A §7). */
export class InvalidToken extends ApiError {
  constructor(description: string) {
    super(401, description, {
      headers: { 'www-authenticate': `Bearer error="invalid_token", error_description="${quotable(description)}"` },
    })
  }
}

/** 402: the organization has used its included amount, or reached its billing cap (A §7, D77). */
export class PaymentRequired extends ApiError {
  constructor(message: string) {
    super(402, message)
  }
}

/** 403: the actor is known but not allowed (A §5, D17). */
export class Forbidden extends ApiError {
  /** insufficient_scope if the token lacks a scope, access_denied otherwise. */
  readonly reason: 'insufficient_scope' | 'access_denied'

  constructor(
    message = 'Access denied',
    reason: 'insufficient_scope' | 'access_denied' = 'access_denied',
    headers: Record<string, string> = {},
  ) {
    super(403, message, { headers })
    this.reason = reason
  }
}

/**
 * 403: the user signed in too long ago for this. The challenge of RFC 9470 tells programs so, and how recent the sign-in has to
 * be: the `max_age` to request a new authorization with (D6).
 */
export class SignInTooOld extends Forbidden {
  constructor(message: string, maxAgeSeconds: number) {
    super(message, 'access_denied', {
      'www-authenticate': `Bearer error="insufficient_user_authentication", error_description="${quotable(message)}", max_age="${maxAgeSeconds}"`,
    })
  }
}

/** 404: missing, somebody else's, or a malformed id in the path; all three read the same (A §7, D17). */
export class NotFound extends ApiError {
  constructor(what: string) {
    super(404, `${what} not found`)
  }
}

/** 409: a duplicate or a state that has to be resolved first (A §7). */
export class Conflict extends ApiError {
  constructor(message: string) {
    super(409, message)
  }
}

/** 408: the body did not arrive in time. The rest will not be read, so the response closes the connection (RFC 9110 §15.5.9). */
export class RequestTimeout extends ApiError {
  constructor(message: string) {
    super(408, message, { headers: { connection: 'close' } })
  }
}

/** 413: the body is larger than the endpoint accepts (D19). */
export class PayloadTooLarge extends ApiError {
  constructor(limitBytes: number) {
    super(413, `The request body is larger than ${limitBytes} bytes`)
  }
}

/** One failing field of a 422 (A §7, D14). `property` is a JSON pointer; `expected` and `found` are JSON values. */
export interface FieldFailure {
  property: string
  message: string
  summary: string
  expected: unknown
  found: unknown
}

/** 422: the request does not have the documented shape. Never empty: the body leads with the first failure (A §7, D13, D14). */
export class ValidationFailed extends ApiError {
  readonly on: 'body' | 'query' | 'params' | 'headers'
  readonly failures: readonly [FieldFailure, ...FieldFailure[]]

  constructor(on: 'body' | 'query' | 'params' | 'headers', failures: readonly [FieldFailure, ...FieldFailure[]]) {
    super(422, failures[0].message)
    this.on = on
    this.failures = failures
  }
}

/** 429 of a request throttle: the only 429 that clears by waiting, always after a full window (A §8, D55). */
export class Throttled extends ApiError {
  constructor() {
    super(429, 'Too many requests; try again in 60 seconds', { headers: { 'retry-after': '60' } })
  }
}

/** 429 of a plan quota: it does not clear by waiting, so there is no Retry-After (A §8, D77). */
export class QuotaExceeded extends ApiError {
  constructor(quota: string, used: number, limit: number) {
    super(429, `Plan quota reached: ${quota} (${used} of ${limit} used). Contact support to raise it.`)
  }
}

/** 429: the resource has its maximum of open streams; it does not clear by waiting, so no Retry-After (A §6, §8). */
export class TooManyStreams extends ApiError {
  constructor(limit: number) {
    super(429, `The resource has ${limit} streams open already; close one first`)
  }
}

/** 412: a precondition of the request does not hold (RFC 9110 §13). */
export class PreconditionFailed extends ApiError {
  constructor(message = 'A precondition of the request does not hold') {
    super(412, message)
  }
}

/** 502: the object store failed; the same request may succeed later (A §7, D22). */
export class BadGateway extends ApiError {
  constructor(message: string, cause?: unknown) {
    super(502, message, { cause })
  }
}

/** 503: a dependency is unavailable or too slow; the same request may succeed later (A §7, D22). */
export class Unavailable extends ApiError {
  constructor(message = 'A dependency is temporarily unavailable; try again later', cause?: unknown) {
    super(503, message, { cause })
  }
}

/** A failure of an OAuth endpoint: `error` is the code of RFC 6749 or a related RFC, the message its description. */
export class OAuthError extends ApiError {
  readonly error: string

  constructor(status: number, error: string, description: string, headers?: Record<string, string>) {
    super(status, description, headers ? { headers } : undefined)
    this.error = error
  }
}
