import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { headerPairs, urlOf } from './request-scope.ts'

export type WebHandler = (request: Request) => unknown
type Listener = (request: IncomingMessage, response: ServerResponse) => Promise<void>

/** Makes a Node request listener from a web handler. request.signal aborts if the client disconnects. */
export function webListener(handler: WebHandler): Listener {
  return async (incoming, outgoing) => {
    const abort = new AbortController()
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) abort.abort(new DOMException('The client is gone', 'AbortError'))
    })
    const answer = await handler(toRequest(incoming, abort.signal))
    if (!isResponse(answer)) throw new TypeError('The handler returned no Response')
    await send(answer, incoming, outgoing)
  }
}

function isResponse(value: unknown): value is Response {
  // Checks the shape, as a bundle may bring its own Response class.
  return typeof value === 'object' && value !== null && 'status' in value && 'headers' in value && 'body' in value
}

function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET' } = incoming
  const init: RequestInit & { duplex?: 'half' } = { method, headers: headerPairs(incoming), signal }
  const hasBody = 'content-length' in incoming.headers || 'transfer-encoding' in incoming.headers
  if (hasBody && method !== 'GET' && method !== 'HEAD' && method !== 'TRACE') {
    init.body = Readable.toWeb(incoming) as unknown as NonNullable<RequestInit['body']>
    init.duplex = 'half'
  }
  return new Request(urlOf(incoming), init)
}

async function send(answer: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const body = answer.body as ReadableStream<Uint8Array> | null
  if (outgoing.destroyed) {
    await body?.cancel().catch(() => {})
    return
  }
  outgoing.statusCode = answer.status
  if (answer.statusText) outgoing.statusMessage = answer.statusText
  for (const [name, value] of answer.headers) if (name !== 'set-cookie') outgoing.setHeader(name, value)
  const cookies = answer.headers.getSetCookie()
  if (cookies.length > 0) outgoing.setHeader('set-cookie', cookies)
  if (body === null || incoming.method === 'HEAD') {
    await body?.cancel().catch(() => {})
    outgoing.end()
    return
  }
  await sendBody(body, outgoing)
}

async function sendBody(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader()
  const onClose = () => void reader.cancel().catch(() => {})
  outgoing.once('close', onClose)
  // Neither the head nor the first chunk waits for a slow body.
  const { promise: later, resolve: onLater } = Promise.withResolvers<undefined>()
  const flush = setImmediate(() => {
    // `flushHeaders` would send header values as UTF-8: a Response holds their bytes.
    outgoing.write(new Uint8Array())
    onLater(undefined)
  })
  try {
    const first = await reader.read()
    const second = reader.read()
    second.catch(() => {})
    // A body of one chunk is sent at once, with its length.
    if (!first.done && (await Promise.race([second, later]))?.done === true) {
      outgoing.end(first.value)
      return
    }
    for (let piece = first; !piece.done; piece = piece === first ? await second : await reader.read()) {
      if (outgoing.destroyed) return
      if (!outgoing.write(piece.value)) await drained(outgoing)
    }
    outgoing.end()
  } catch (error) {
    // The answer is incomplete, and the client should notice.
    if (!outgoing.destroyed) console.error(error)
    outgoing.destroy()
  } finally {
    clearImmediate(flush)
    outgoing.removeListener('close', onClose)
  }
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.removeListener('drain', done)
      outgoing.removeListener('close', done)
      resolve()
    }
    outgoing.on('drain', done)
    outgoing.on('close', done)
  })
}
