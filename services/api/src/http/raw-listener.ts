import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { ApiError, BadRequest } from '@platform/errors/api-error'
import { renderError } from '@platform/errors/render-error'
import { anyOriginHeaders } from '@platform/service/cors'
import { inviteBody } from '@platform/service/http-server'
import { readTrace } from '@platform/service/trace'
import type { Deps } from '../deps.ts'
import { dismiss } from './dismiss.ts'
import {
  type Arrival,
  asApiError,
  corsHeaders,
  header,
  preflight,
  record,
  type Reply,
  requestIdOf,
  shapeOf,
} from './exchange.ts'
import { pathOf } from './request-target.ts'

const WATCH_MS = 30_000
const WATCHED_BYTES_MIN = 16_384

/** A request to a raw listener: its path and bytes as they came, since these are what is signed. */
export interface RawExchange extends Arrival {
  readonly outgoing: ServerResponse
  /** Path and query as they came. */
  readonly url: string
  /** For the log and the metrics; set as soon as it is known. */
  operation: string
  /** True while the platform is busy and no byte is expected of anybody. */
  isWorking: boolean
}

interface RawListenerOptions {
  /** Names what is not known better yet. */
  name: string
  /** True for S3. */
  isS3?: boolean
  /** Headers of answers that a page may read, and what it may send (CORS). */
  exposedHeaders: string
  allow: { methods: string; headers: string }
  /** Who may read answers from a browser: pages of the configured origins unless 'any', where the URL is all authority. */
  origins?: 'any'
  /** Headers that every answer has. */
  headers?: Record<string, string>
  /** Over each of these a client has to take or send some bytes, or it is let go; 30 s unless said. */
  watchMs?: number
  /** Answers a preflight in another way than by `allow`; undefined: by `allow`. It has been counted. */
  preflight?(exchange: RawExchange): Promise<Omit<Reply, 'body'> | undefined>
  /** Answers the request, or throws. */
  handle(exchange: RawExchange): Promise<void>
}

/**
 * The request's body. Only now a client that waits for it is told to send. Throws BadRequest when the client leaves in the
 * middle of it.
 */
export async function* bodyOf({ incoming }: Pick<Arrival, 'incoming'>): AsyncGenerator<Buffer> {
  inviteBody(incoming)
  try {
    yield* incoming as AsyncIterable<Buffer>
  } catch {
    // Nothing but the client breaks a body: its reset is no failure of ours.
    throw new BadRequest('The body ended early')
  }
}

/** Closes the connection of a client that moves hardly a byte while it is waited for. */
function watch(exchange: RawExchange, everyMs: number): NodeJS.Timeout {
  const { socket } = exchange.incoming
  let moved = socket.bytesRead + socket.bytesWritten
  return setInterval(() => {
    const now = socket.bytesRead + socket.bytesWritten
    if (!exchange.isWorking && now - moved < WATCHED_BYTES_MIN) socket.destroy()
    moved = now
  }, everyMs).unref()
}

/**
 * Wraps a listener into a whole exchange: request id, CORS, failures in the shape of its path, log and metrics. There is no
 * deadline for the whole, but for silence.
 */
export function createRawListener(
  deps: Deps,
  {
    name,
    isS3 = false,
    origins,
    exposedHeaders,
    allow,
    headers = {},
    watchMs = WATCH_MS,
    preflight: decide,
    handle,
  }: RawListenerOptions,
): RequestListener {
  async function run(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    const url = incoming.url ?? '/'
    const requestId = requestIdOf(incoming)
    const exchange: RawExchange = {
      deps,
      incoming,
      outgoing,
      url,
      path: pathOf(url),
      isS3,
      requestId,
      trace: readTrace(header(incoming, 'traceparent'), header(incoming, 'tracestate')),
      operation: name,
      isWorking: false,
    }
    const watching = watch(exchange, watchMs)
    for (const [key, value] of Object.entries({
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
      ...headers,
      ...(origins === 'any' ? anyOriginHeaders(exposedHeaders) : corsHeaders(exchange, exposedHeaders)),
    }))
      outgoing.setHeader(key, value)
    let failure: unknown
    try {
      const preflighted = await preflight(exchange, allow)
      if (preflighted) {
        const { status, headers: more } = (await decide?.(exchange)) ?? preflighted
        outgoing.writeHead(status, more).end()
      } else await handle(exchange)
    } catch (error) {
      failure = asApiError(error)
      fail(exchange, failure)
    } finally {
      clearInterval(watching)
    }
    const hasLeft = failure !== undefined && !(failure instanceof ApiError) && outgoing.destroyed
    record(exchange, exchange.operation, hasLeft ? 499 : outgoing.statusCode, startedAt, failure)
  }
  return (incoming, outgoing) => void run(incoming, outgoing)
}

/** Answers with a failure; what had begun to be answered is cut off, so that nobody takes it for whole. */
function fail(exchange: RawExchange, error: unknown): void {
  const { incoming, outgoing, path, requestId } = exchange
  if (outgoing.headersSent) {
    outgoing.destroy()
    return
  }
  const { status, headers, body } = renderError(shapeOf(exchange), error, { path, requestId })
  dismiss(incoming, outgoing)
  outgoing.writeHead(status, headers)
  outgoing.end(incoming.method === 'HEAD' ? undefined : body)
}
