import { Readable } from 'node:stream'
import type { Agent, Dispatcher } from 'undici'

/** A provider's answer: the status and the relevant headers. */
export interface UpstreamAnswer {
  status: number
  /** The whole header; empty if absent. */
  contentType: string
  /** From `Retry-After`, which is in seconds or a date. */
  retryAfterSeconds: number | undefined
  /** True if the body is compressed, although we did not accept that. */
  isEncoded: boolean
  body: AsyncIterable<Uint8Array>
}

export interface UpstreamRequest {
  method: 'GET' | 'POST'
  url: URL
  headers: Record<string, string>
  body: Dispatcher.DispatchOptions['body'] | FormData
}

export interface UpstreamClient {
  /**
   * Sends a request to a provider; does not follow redirects. Rejects with NotConnected if no byte of the request was sent, also if
   * the signal is the cause; else with the signal's reason if it is aborted, and with LostAnswer otherwise.
   */
  ask(request: UpstreamRequest, signal: AbortSignal): Promise<UpstreamAnswer>
  close(): Promise<void>
}

/** The provider could not be reached: nothing was sent. */
export class NotConnected extends Error {
  override name = 'NotConnected'
}

/** The connection ended before the answer began: the provider may have processed the request. */
export class LostAnswer extends Error {
  override name = 'LostAnswer'
}

const KEEP_ALIVE_MS = 30_000
/** Maximum unread bytes of an answer; beyond that the provider is paused. */
const WAITING_BYTES_MAX = 65_536

type AnswerStart = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>

/**
 * A request, and its answer as an iterator. A reader that stops early ends the connection. undici's own stream of an answer would
 * cost more than the rest of the exchange: its chunks pass through four queues.
 */
class UpstreamExchange implements Dispatcher.DispatchHandler, AsyncIterableIterator<Buffer, undefined> {
  /** Resolves when the answer begins. */
  readonly started: Promise<AnswerStart>
  readonly #begin: PromiseWithResolvers<AnswerStart>
  readonly #request: UpstreamRequest['body']
  readonly #signal: AbortSignal
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | undefined
  #reader: PromiseWithResolvers<IteratorResult<Buffer, undefined>> | undefined
  #waitingBytes = 0
  #isOver = false
  #failure: Error | undefined

  constructor(request: UpstreamRequest['body'], signal: AbortSignal) {
    this.#begin = Promise.withResolvers()
    this.started = this.#begin.promise
    this.#request = request
    this.#signal = signal
    if (signal.aborted) this.#leave()
    else signal.addEventListener('abort', this.#leave, { once: true })
  }

  /** True once there is a connection, on which undici writes the request next. */
  get wasSent(): boolean {
    return this.#controller !== undefined
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#failure) controller.abort(this.#failure)
    else this.#controller = controller
  }

  onResponseStart(_: unknown, statusCode: number, headers: AnswerStart['headers']): void {
    if (statusCode >= 200) this.#begin.resolve({ statusCode, headers })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
    if (this.#reader) {
      this.#reader.resolve({ done: false, value: chunk })
      this.#reader = undefined
      return
    }
    this.#chunks.push(chunk)
    this.#waitingBytes += chunk.length
    if (this.#waitingBytes >= WAITING_BYTES_MAX) controller.pause()
  }

  onResponseEnd(): void {
    this.#end()
    this.#reader?.resolve({ done: true, value: undefined })
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#isOver) return
    this.#failure = error
    this.#end()
    this.#begin.reject(error)
    this.#reader?.reject(error)
    if (this.#request instanceof Readable) this.#request.on('error', () => {}).destroy(error)
  }

  /** Returns the next bytes. After the received ones are read, rejects with the error that ended the answer. */
  async next(): Promise<IteratorResult<Buffer, undefined>> {
    const value = this.#chunks.shift()
    if (value) {
      this.#waitingBytes -= value.length
      if (this.#waitingBytes === 0) this.#controller?.resume()
      return { done: false, value }
    }
    if (this.#failure) throw this.#failure
    if (this.#isOver) return { done: true, value: undefined }
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  /** Called when the reader stops early. */
  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.#abort(new LostAnswer('The answer was not read to its end'))
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  readonly #leave = (): void => this.#abort(this.#signal.reason as Error)

  /** Also discards received bytes that are not read yet. */
  #abort(reason: Error): void {
    this.#chunks.length = 0
    if (this.#isOver) return
    this.onResponseError(undefined, reason)
    this.#controller?.abort(reason)
  }

  #end(): void {
    this.#isOver = true
    this.#signal.removeEventListener('abort', this.#leave)
  }
}

/** Returns seconds from now; undefined if the value is neither seconds nor a date. */
function readRetryAfter(value: string): number | undefined {
  if (/^\d{1,6}$/.test(value)) return Number(value)
  const dateMs = /^[A-Z][a-z]{2},/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(dateMs) ? undefined : Math.max(0, Math.ceil((dateMs - Date.now()) / 1_000))
}

/** Opens and pools connections to providers. connectMs: how long one may take to open. */
export function openUpstreamClient({ connectMs }: { connectMs: number }): UpstreamClient {
  let agent: Promise<Agent> | undefined

  /** Loads the client at the first call: it takes 28 MB, and `local/*` models do not need it. */
  async function openAgent(): Promise<Agent> {
    const undici = await import('undici')
    const connect = { timeout: connectMs, allowH2: false }
    // The caller enforces the time limits: to the millisecond, and from the right start.
    return new undici.Agent({ connect, headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: KEEP_ALIVE_MS })
  }

  return {
    async ask({ method, url, headers, body }, signal) {
      const client = await (agent ??= openAgent())
      const exchange = new UpstreamExchange(body, signal)
      try {
        const sent = { origin: url.origin, path: url.pathname + url.search, method, headers, body: body as never }
        client.dispatch(sent, exchange)
        const { statusCode, headers: received } = await exchange.started
        const { 'content-type': type, 'retry-after': retryAfter, 'content-encoding': encoding } = received
        return {
          status: statusCode,
          contentType: typeof type === 'string' ? type : '',
          retryAfterSeconds: typeof retryAfter === 'string' ? readRetryAfter(retryAfter) : undefined,
          isEncoded: encoding !== undefined && encoding !== 'identity',
          body: exchange,
        }
      } catch (error) {
        // For example, a key or URL that is invalid in any request.
        if (!exchange.wasSent) throw new NotConnected('Not connected', { cause: error })
        signal.throwIfAborted()
        throw new LostAnswer('The answer was lost', { cause: error })
      }
    },
    close: async () => (await agent)?.destroy(),
  }
}
