import { abortable } from './abortable.ts'
import type { Credential, TokenRequest } from './credentials/credential.ts'
import { fromEnv } from './credentials/function.ts'
import { errorOf, PlatformError } from './errors.ts'
import { fail } from './fail.ts'
import { pause } from './pause.ts'
import { readAnswer } from './read-answer.ts'
import { baseUrlOf, type Prepared, refuseUnknown } from './request.ts'
import type { CallOptions, Fetch, Read, Sender } from './sender.ts'

export interface PlatformOptions {
  /** The origin of the API, such as `http://localhost:4000`. */
  baseUrl: string
  credential: Credential
  /** Takes the place of the global one. */
  fetch?: Fetch | undefined
}

/**
 * A platform, and who speaks to it: the first argument of every operation.
 *
 * Without options it is the platform that runs this Function (see `fromEnv`). Throws TypeError, before any request, for an option
 * that it does not know, a malformed baseUrl, and a credential of another platform. Keeps no timer.
 */
export class Platform implements Sender {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly fetch: Fetch
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

  /** Called by the functions of the operations. */
  async send<T>(
    { method, path, url = this.baseUrl + path, headers, body, repetition, isPublic }: Prepared,
    {
      signal,
      timeoutMs = 120_000,
      tryMs = 30_000,
      retries = 3,
      // oxlint-disable-next-line no-unused-vars -- an option that the headers hold: not an unknown one
      idempotencyKey,
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
