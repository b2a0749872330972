import { abortable } from './abortable.ts'
import type { Credential, TokenRequest } from './credentials/credential.ts'
import { fromEnv } from './credentials/function.ts'
import { errorOf, PlatformError } from './errors.ts'
import { fail } from './fail.ts'
import { pause } from './pause.ts'
import { readAnswer } from './read-answer.ts'
import { baseUrlOf, type Prepared, refuseUnknown } from './request.ts'

export interface PlatformOptions {
  /** The origin of the API, such as `http://localhost:4000`. */
  baseUrl: string
  credential: Credential
  /** Takes the place of the global one. */
  fetch?: typeof fetch
}

export interface CallOptions {
  /** Ends waiting, sleeping and reading at once; the call then throws the signal's reason. */
  signal?: AbortSignal | undefined
  /** For the whole call with its retries. Default 120,000; of inference 600,000. */
  timeoutMs?: number | undefined
  /** For a single try, from the request to the end of the answer. Default 30,000; of inference 600,000. */
  tryMs?: number | undefined
  /** How often the request may be sent again after a failure that can pass. Default 3; of inference 1. */
  retries?: number | undefined
  /** Of a creation. Default: a UUIDv7 for each call. */
  idempotencyKey?: string | undefined
  /** Told of each answer, failures included. */
  onResponse?: ((answer: { status: number; headers: Headers }) => void) | undefined
}

/** What is made of an answer while its try lasts. */
type Read<T> = (answer: Response) => Promise<T>

/**
 * A platform, and who speaks to it: the first argument of every operation.
 *
 * Without options it is the platform that runs this Function (see `fromEnv`). Throws TypeError, before any request, for an option
 * that it does not know, a malformed baseUrl, and a credential of another platform. Keeps no timer.
 */
export class Platform {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly fetch: typeof fetch
  readonly #renews: boolean
  readonly #token: (request: TokenRequest) => Promise<string>

  constructor(options: PlatformOptions = fromEnv()) {
    refuseUnknown('Platform', options, ['baseUrl', 'credential', 'fetch'])
    const { credential } = options
    this.baseUrl = baseUrlOf(options.baseUrl)
    this.fetch = options.fetch ?? fetch.bind(globalThis)
    if (!credential?.bind) fail('Platform needs a credential')
    const { baseUrl = this.baseUrl } = credential
    if (baseUrl !== this.baseUrl) fail(`The credential belongs to ${baseUrl}, not to ${this.baseUrl}`)
    credential.baseUrl = baseUrl
    this.#renews = credential.renews
    this.#token = credential.bind(this)
  }

  /** An access token that has not ended, for other clients of this platform. */
  token(): Promise<string> {
    return this.#token({})
  }

  /**
   * Sends a request; the functions of the operations call it. Only to this platform, and again where it may be repeated. read: what is made of the answer, while the try lasts.
   * Throws PlatformError, and the signal's reason.
   */
  async send<T>(
    { method, path, url = this.baseUrl + path, headers, body, repetition, isPublic }: Prepared,
    {
      signal,
      timeoutMs = repetition.callMs ?? 120_000,
      retries = repetition.retries ?? 3,
      onResponse,
    }: CallOptions = {},
    read: Read<T> = readAnswer as Read<T>,
  ): Promise<T> {
    const endsAt = Date.now() + timeoutMs
    const call = { operation: `${method} ${path}`, attempts: 0 }
    let refused: string | undefined
    /** Whether an earlier try may have had its effect. */
    let isRepetition = false
    for (;;) {
      const ending = new AbortController()
      const leftMs = Math.min(endsAt - Date.now(), tryMs)
      const timer = setTimeout(() => ending.abort(new Error(`it took longer than ${leftMs} ms`)), leftMs)
      let token: string | undefined
      const attempt = async (): Promise<T> => {
        if (!isPublic) token = await this.#token({ signal: ending.signal, refused })
        call.attempts++
        const answer = await this.fetch(url, {
          method,
          headers: token ? { ...headers, authorization: `Bearer ${token}` } : headers,
          body,
          // Followed, a redirect could take the token elsewhere.
          redirect: 'manual',
          signal: ending.signal,
        })
        onResponse?.(answer)
        if (answer.ok) return read(answer)
        throw errorOf(answer, await answer.text(), token, call)
      }
      let failure: PlatformError
      try {
        signal?.throwIfAborted()
        return await abortable(attempt(), signal)
      } catch (error) {
        ending.abort()
        // What the credential says comes before the first request.
        if (signal?.aborted || (error instanceof TypeError && !call.attempts)) throw error
        failure = error instanceof PlatformError ? error : noAnswer(error as Error, call)
        // A renewal has had its own retries.
        if (failure.operation !== call.operation) throw error
      } finally {
        clearTimeout(timer)
      }

      const { status, retryable, retryAfterSeconds } = failure
      if (status === 401 && this.#renews && token && !refused) {
        refused = token
        continue
      }
      if (repetition.isDone?.(failure, isRepetition)) return undefined as T
      const waitMs = (retryAfterSeconds ?? Math.random() * Math.min(2 ** call.attempts / 4, 8)) * 1_000
      if (!repetition.mayRepeat(failure, isRepetition) || retries-- <= 0 || Date.now() + waitMs >= endsAt) throw failure
      isRepetition ||= retryable && status !== 429
      await pause(waitMs, signal)
    }
  }
}

/** Keeps of the cause its code, and nothing that it may hold, such as the bytes of an answer. */
function noAnswer({ message, cause }: Error, call: { operation: string; attempts: number }): PlatformError {
  const { code } = (cause ?? {}) as { code?: string }
  return new PlatformError(`No answer: ${code ?? message}`, { ...call, status: 0, code, retryable: true })
}
