/** A field that the platform refused (422). */
export interface FieldError {
  /** A JSON pointer, such as `/scopes/0`. */
  property: string
  message: string
  expected?: unknown
  found?: unknown
}

/** What is known of a failure, beside its sentence. */
export interface Failure {
  /** The HTTP status; 0 if there was no answer. */
  status: number
  /** The method and the path of the operation, such as `GET /applications`. */
  operation: string
  /** How many requests were sent. */
  attempts: number
  /** `X-Request-Id` of the last answer: what an operator can look for. */
  requestId?: string | undefined
  /** Whether the same call may succeed later. */
  retryable?: boolean | undefined
  /** Of a 429 with Retry-After. */
  retryAfterSeconds?: number | undefined
  errors?: readonly FieldError[] | undefined
  /** The `code` of the AI gateway, the `error` of OAuth, such as `too_many_concurrent_streams`, or Node's `ECONNRESET`. */
  code?: string | undefined
  type?: string | undefined
  /** Of a 403 that asks for a recent sign-in: how many seconds ago it may have been (RFC 9470). */
  maxAge?: number | undefined
  /** Of a lost secret: the ids of the keys that have the name. Some may be another process's. */
  apiKeyIds?: readonly string[] | undefined
  cause?: unknown
}

/** Every failure of a call. `message` is the platform's own sentence where it answered. Holds no token and no secret. */
export class PlatformError extends Error implements Failure {
  declare status: number
  declare operation: string
  declare attempts: number
  declare requestId?: string | undefined
  declare retryable: boolean
  declare retryAfterSeconds?: number | undefined
  declare errors: readonly FieldError[]
  declare code?: string | undefined
  declare type?: string | undefined
  declare maxAge?: number | undefined
  declare apiKeyIds?: readonly string[] | undefined

  constructor(message: string, failure: Failure) {
    super(message)
    Object.assign(this, { name: 'PlatformError', retryable: false, errors: [] }, failure)
  }
}

interface Body extends Pick<Failure, 'code' | 'type' | 'errors'> {
  /** The AI gateway nests. */
  error?: string | Body
  message?: string
  error_description?: string
}

/** The body of a failure, in any of the platform's four shapes: resource, OAuth, AI gateway, S3 (XML). */
function readBody(text: string): Pick<Failure, 'code' | 'type' | 'errors'> & { message?: string | undefined } {
  try {
    const body = JSON.parse(text) as Body
    const {
      error,
      message = error as string,
      error_description: sentence = message,
      ...rest
    } = typeof body.error === 'object' ? body.error : body
    const { type, errors = [], code = error === sentence ? undefined : (error as string) } = rest
    return { message: sentence, code, type, errors }
  } catch {
    return { message: /<Message>(.*?)</.exec(text)?.[1] }
  }
}

/** The error for an answer that is a failure. token: left out of the sentence, should the answer repeat it. */
export function errorOf(
  { status, headers }: Response,
  body: string,
  token: string | undefined,
  call: { operation: string; attempts: number },
): PlatformError {
  const shown = body.replaceAll(/svc_secret_[\w-]+/g, '…').replaceAll(token ?? '\0', '…')
  const { message = `Status ${status}`, ...members } = readBody(shown)
  const retryAfterSeconds = numberOf(headers.get('retry-after'))
  return new PlatformError(message, {
    ...call,
    ...members,
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    retryAfterSeconds,
    // Statuses that success can follow on an unchanged request (A §7).
    retryable:
      (status === 429 ? retryAfterSeconds !== undefined : [500, 502, 503].includes(status)) &&
      headers.get('x-should-retry') !== 'false',
    maxAge: numberOf(headers.get('www-authenticate')?.split('max_age="')[1]),
  })
}

/** The whole number that a text begins with. */
const numberOf = (text: string | null | undefined): number | undefined => {
  const number = Number.parseInt(text ?? '')
  return number >= 0 ? number : undefined
}

const isStatus =
  (status: number) =>
  (error: unknown): error is PlatformError =>
    error instanceof PlatformError && error.status === status

/** The resource is missing, or out of reach. */
export const isNotFound: (error: unknown) => error is PlatformError = /* @__PURE__ */ isStatus(404)

/** A name or key is taken, or something is in the way. */
export const isConflict: (error: unknown) => error is PlatformError = /* @__PURE__ */ isStatus(409)

/** The credential is refused, and renewing it did not help. */
export const needsSignIn: (error: unknown) => error is PlatformError = /* @__PURE__ */ isStatus(401)

/** The call needs credentials proven within the last `maxAge` seconds. */
export const needsStepUp = (error: unknown): error is PlatformError & { maxAge: number } =>
  error instanceof PlatformError && error.maxAge !== undefined

/** A plan's quota, a budget or the billing cap is used up: waiting does not help. */
export const isQuota = (error: unknown): error is PlatformError =>
  error instanceof PlatformError &&
  (error.status === 402 ||
    (error.status === 429 &&
      error.retryAfterSeconds === undefined &&
      (error.code === undefined || error.code === 'insufficient_quota')))

/**
 * An API key may exist whose secret nobody has: the answer to its creation was lost. `apiKeyIds` lists the keys of that name;
 * undefined if they could not be listed. None is deleted, since another process's may be among them.
 */
export const isSecretLost = (error: unknown): error is PlatformError =>
  error instanceof PlatformError && error.code === 'secret_lost'
