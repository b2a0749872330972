import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { ApiError, BadRequest } from '@platform/errors/api-error'
import { renderError } from '@platform/errors/render-error'
import { anyOriginHeaders } from '@platform/service/cors'
import { inviteBody } from '@platform/service/http-server'
import { readTrace } from '@platform/service/trace'
import type { Core } from '../core.ts'
import { dismiss } from './dismiss.ts'
import {
  addressOf,
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

/** A request to a raw listener: path and bytes exactly as received, since signatures cover them. */
export interface RawExchange<Deps extends Core = Core> extends Arrival<Deps> {
  readonly outgoing: ServerResponse
  /** Path and query as received. */
  readonly url: string
  /** For the log and the metrics; set as soon as it is known. */
  operation: string
  /** True while the platform is busy and expects no bytes from the client. */
  isWorking: boolean
}

interface RawListenerOptions<Deps extends Core> {
  /** The operation's name until a more specific one is known. */
  name: string
  /** True for S3. */
  isS3?: boolean
  /** Response headers that a page may read, and what it may send (CORS). */
  exposedHeaders: string
  allow: { methods: string; headers: string }
  /**
   * Who may read answers from a browser: pages of the configured origins, or any page ('any') if the URL itself is the
   * credential.
   */
  origins?: 'any'
  /** Headers of every answer. */
  headers?: Record<string, string>
  /** A client that neither sends nor receives within this interval is disconnected; 30 s by default. */
  watchMs?: number
  /** Answers a preflight instead of `allow`; if it returns undefined, `allow` applies. The request has been counted already. */
  preflight?: (exchange: RawExchange<Deps>) => Promise<Omit<Reply, 'body'> | undefined>
  /** Answers the request, or throws. */
  handle: (exchange: RawExchange<Deps>) => Promise<void>
}

/**
 * The request's body. A client that waits for 100 Continue is told to send only now. Throws BadRequest if the client leaves
 * before the body is complete.
 */
export async function* bodyOf({ incoming }: Pick<Arrival, 'incoming'>): AsyncGenerator<Buffer> {
  inviteBody(incoming)
  try {
    yield* incoming as AsyncIterable<Buffer>
  } catch {
    // Only the client can break a body, so its reset is not our failure.
    throw new BadRequest('The body ended early')
  }
}

/** Closes the connection of a client that moves hardly any bytes while we wait for it. */
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
 * Wraps a raw handler into a whole exchange: request id, CORS, errors in the format of its path, log and metrics. There is no
 * overall deadline, only one for silence.
 */
export function createRawListener<Deps extends Core>(
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
  }: RawListenerOptions<Deps>,
): RequestListener {
  const constant = Object.entries(headers)
  async function run(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    const url = incoming.url ?? '/'
    const requestId = requestIdOf(incoming)
    const exchange: RawExchange<Deps> = {
      deps,
      incoming,
      address: addressOf(deps, incoming),
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
    outgoing.setHeader('x-content-type-options', 'nosniff')
    outgoing.setHeader('x-request-id', requestId)
    for (const [key, value] of constant) outgoing.setHeader(key, value)
    const cors = origins === 'any' ? anyOriginHeaders(exposedHeaders) : corsHeaders(exchange, exposedHeaders)
    for (const [key, value] of Object.entries(cors)) outgoing.setHeader(key, value)
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

/**
 * Answers with an error. If the head has been sent, cuts the connection instead, so that the client sees an incomplete answer.
 */
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
