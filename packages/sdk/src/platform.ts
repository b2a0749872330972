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
  readonly #token: (request: TokenRequest) => Promise<string>

  constructor(options: PlatformOptions = fromEnv()) {
    const { baseUrl, credential, fetch: send = fetch.bind(globalThis), ...unknown } = options
    refuseUnknown('Platform', unknown, [])
    this.baseUrl = baseUrlOf(baseUrl)
    this.fetch = send
    if (!credential?.bind) fail('Platform needs a credential')
    credential.baseUrl ??= this.baseUrl
    if (credential.baseUrl !== this.baseUrl) fail(`The credential belongs to ${credential.baseUrl}`)
    this.#token = credential.bind(this)
  }

  /** An access token that has not ended, for other clients of this platform. */
  token(): Promise<string> {
    return this.#token({})
  }

  /**
   * Sends a request, again where it may be repeated; the functions of the operations call it. read: what is made of the answer,
   * while the try lasts. Throws PlatformError, and the signal's reason.
   */
  async send<T>(
    { method, path, url = this.baseUrl + path, headers, body, repetition, isPublic }: Prepared,
    {
      signal,
      timeoutMs = 120_000,
      tryMs = 30_000,
      retries = 3,
      idempotencyKey: _,
      onResponse,
      ...unknown
    }: CallOptions = {},
    read: Read<T> = readAnswer as Read<T>,
  ): Promise<T> {
    refuseUnknown(path, unknown, [])
    const endsAt = Date.now() + timeoutMs
    const call = { operation: `${method} ${path}`, attempts: 0 }
    let failure!: PlatformError
    let refused: string | undefined
    /** Whether an earlier try may have had its effect. */
    let isRepetition = false
    for (;;) {
      const ending = new AbortController()
      const leftMs = Math.min(endsAt - Date.now(), tryMs)
      const timer = setTimeout(() => ending.abort(new Error(`nothing within ${leftMs} ms`)), leftMs)
      let token: string | undefined
      const attempt = async (): Promise<T> => {
        if (!isPublic) token = await this.#token({ signal: ending.signal, refused })
        if (refused && token === refused) throw failure
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
      try {
        signal?.throwIfAborted()
        return await abortable(attempt(), signal)
      } catch (error) {
        ending.abort()
        // What the credential says comes before the first request.
        if (signal?.aborted || (error instanceof TypeError && !call.attempts)) throw error
        // Of the cause its code is kept, and nothing that it may hold, such as the bytes of an answer.
        const { message, cause } = error as { message: string; cause?: { code?: string } }
        failure =
          error instanceof PlatformError
            ? error
            : new PlatformError(`No answer: ${cause?.code ?? message}`, {
                ...call,
                status: 0,
                code: cause?.code,
                retryable: true,
              })
        // A renewal has had its own retries.
        if (failure.operation !== call.operation) throw error
      } finally {
        clearTimeout(timer)
      }

      const { status, retryable, retryAfterSeconds } = failure
      if (status === 401 && token && !refused) {
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
