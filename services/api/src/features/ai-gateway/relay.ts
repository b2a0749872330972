import type { ServerResponse } from 'node:http'
import { AiError } from '@platform/errors/ai-error'
import { describeAiFailure } from '@platform/errors/render-error'
import type { Usage } from '@platform/ai-protocols/usage'
import { mediaTypeOf } from '@platform/service/read-body'
import { ClientLeft, ShuttingDown, TookTooLong } from './abort-reasons.ts'
import type { Served } from './providers/dispatch.ts'
import type { UpstreamAnswer } from './providers/upstream-client.ts'
import { BrokenStream, FailedMidway, type StreamProtocol } from './providers/stream-reader.ts'
import type { AiTimings } from './providers/timings.ts'
import { shuttingDown, upstreamError, upstreamTimeout } from './providers/upstream-failure.ts'

/** Maximum size of an answer that is read as a whole. */
const WHOLE_BYTES_MAX = 64 * 1_048_576
/** How long a stream may take to end after its last event. */
const TAIL_MS = 1_000

/** The usage of an answer as reported, and the amount of text. */
export interface Told {
  usage: Usage | undefined
  /** For an answer that ended early: the usage reported until then, of which only the input is reliable. */
  usageSoFar?: Usage | undefined
  outputBytes: number
  /** True if the client read too slowly: the provider may have sent more than was read. */
  wasStalled?: boolean
  /** The id under which the provider stores it. */
  responseId: string | undefined
}

/** What we record of an answer that its provider stores. */
export interface KeptAnswer {
  responseId: string | undefined
  /** Ids of its items. */
  itemIds: readonly string[]
  usage: Usage | undefined
}

/** A stream did not end properly; `told` is what had arrived until then. */
export class EndedEarly extends Error {
  override name = 'EndedEarly'
  readonly told: Told
  /** The failure for the caller; undefined if the caller has left. */
  readonly failure: AiError | undefined

  constructor(told: Told, failure: AiError | undefined) {
    super('The answer ended early')
    this.told = told
    this.failure = failure
  }
}

/**
 * Returns the content type for forwarded bytes: the provider's if it is of the expected kind. Browsers would show anything else,
 * such as an HTML page, under the API's own origin.
 */
const contentTypeOf = ({ contentType }: UpstreamAnswer, kind: 'audio' | 'video'): string => {
  const type = mediaTypeOf(contentType)
  const isOfKind = new RegExp(`^${kind}/[a-z0-9.+-]{1,64}$`).test(type) || (kind === 'video' && type === 'image/gif')
  return isOfKind ? type : 'application/octet-stream'
}

/** True for an HTML page or an error document, which some providers send with 200: neither is audio or video. */
const isDocument = ({ contentType }: UpstreamAnswer): boolean =>
  /^(text\/|application\/([a-z.+-]*\+)?(json|xml)$)/.test(mediaTypeOf(contentType))

/** An answer of bytes, and how to end it. */
export type ServedBytes = Pick<Served, 'answer' | 'abort' | 'signal' | 'route'>

const failureOf = (served: Pick<Served, 'route'>, error: unknown): AiError => {
  if (error instanceof AiError) return error
  if (error instanceof ShuttingDown) return shuttingDown()
  if (error instanceof TookTooLong) return upstreamTimeout(served.route)
  if (error instanceof FailedMidway) return upstreamError(served.route, 'failed in the middle of its answer')
  if (error instanceof BrokenStream) return upstreamError(served.route, 'sent an answer that cannot be read')
  return upstreamError(served.route, 'cut its answer off')
}

/** Calls back when the provider has been silent for this long. Time spent waiting for a slow reader does not count. */
function watchSilence(ms: number, onSilence: () => void) {
  let isOthersTurn = false
  const timer = setTimeout(() => {
    if (isOthersTurn) timer.refresh()
    else onSilence()
  }, ms)
  return {
    touch: () => void timer.refresh(),
    async during(work: Promise<void>) {
      isOthersTurn = true
      await work
      isOthersTurn = false
      timer.refresh()
    },
    stop: () => clearTimeout(timer),
  }
}

/**
 * Reads a whole answer. Throws AiError if it cannot be read, is too large or does not arrive, ClientLeft if the client left too
 * long ago, and ShuttingDown.
 */
export async function readWhole(served: Served, timings: AiTimings): Promise<Buffer> {
  const { answer, abort, route } = served
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for await (const chunk of answer.body) {
      silence.touch()
      length += chunk.length
      if (length > WHOLE_BYTES_MAX) throw upstreamError(route, 'sent an answer that is too large')
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof ClientLeft || error instanceof ShuttingDown ? error : failureOf(served, error)
  } finally {
    silence.stop()
  }
  return Buffer.concat(chunks)
}

/** Resolves once more can be written, the reader has left, or nobody waits for the answer. */
function drained(outgoing: ServerResponse, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      outgoing.off('drain', go).off('close', go)
      signal.removeEventListener('abort', go)
      resolve()
    }
    outgoing.on('drain', go).on('close', go)
    signal.addEventListener('abort', go)
    if (outgoing.destroyed || signal.aborted || !outgoing.writableNeedDrain) go()
  })
}

/** Ends an answer with its last bytes; destroys the connection if the reader is blocked. */
function endWith(outgoing: ServerResponse, bytes: string): void {
  if (outgoing.writableNeedDrain) outgoing.destroy()
  else outgoing.end(bytes)
}

const streamHeaders = {
  'cache-control': 'no-store',
  // For nginx and similar proxies: they must not buffer events.
  'x-accel-buffering': 'no',
}

interface EventRelay {
  headers: Record<string, string>
  protocol: StreamProtocol
  timings: AiTimings
  /** Called with the id of an answer as soon as the provider reports it, before the caller gets it. */
  keep(responseId: string): Promise<void>
  /** Called once the answer is complete, before the caller sees that. */
  complete(answer: KeptAnswer): Promise<void>
}

/**
 * Relays a stream of events, event by event, and sends comments while it is silent. A failure in the middle becomes a frame of the
 * protocol. Returns the reported usage; throws EndedEarly.
 */
export async function relayEvents(
  served: Served,
  outgoing: ServerResponse,
  { headers, protocol, timings, keep, complete }: EventRelay,
): Promise<Told> {
  const { answer, wire, abort, signal, route } = served
  if (mediaTypeOf(answer.contentType) !== 'text/event-stream') {
    abort(new BrokenStream())
    throw upstreamError(route, 'sent no stream of events')
  }
  const reader = wire.openReader()
  const told = (): Told => {
    const { usage, outputBytes, responseId } = reader
    return { usage, outputBytes, responseId }
  }
  let stalledMs = 0
  const toldEarly = (): Told => {
    const { finalUsage: usage, usageSoFar, outputBytes, responseId } = reader
    return { usage, usageSoFar, outputBytes, responseId, wasStalled: stalledMs > timings.stalledMs }
  }
  outgoing.writeHead(200, { ...headers, ...streamHeaders, 'content-type': 'text/event-stream; charset=utf-8' })
  outgoing.flushHeaders()
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  const ping = setInterval(() => outgoing.write(': ping\n\n'), timings.pingMs)
  let tail: NodeJS.Timeout | undefined
  let kept: string | undefined
  try {
    for await (const chunk of answer.body) {
      if (tail) continue
      silence.touch()
      const piece = reader.push(chunk)
      if (reader.responseId !== kept) {
        kept = reader.responseId
        if (kept !== undefined) await keep(kept)
      }
      if (reader.isOver) await complete(reader)
      if (piece) {
        ping.refresh()
        if (!outgoing.write(piece)) {
          const stalledAt = performance.now()
          try {
            await silence.during(drained(outgoing, signal))
          } finally {
            stalledMs += performance.now() - stalledAt
          }
        }
      }
      if (!reader.isOver) continue
      // The connection becomes reusable once the provider has ended the body; the client need not wait for that.
      outgoing.end()
      tail = setTimeout(() => abort(new TookTooLong()), TAIL_MS)
    }
    if (!tail) outgoing.end(reader.end())
  } catch (error) {
    if (tail) return told()
    if (error instanceof ClientLeft || outgoing.destroyed) throw new EndedEarly(toldEarly(), undefined)
    abort(new BrokenStream())
    const before = error instanceof BrokenStream && error.before ? error.before.toString('utf8') : ''
    const failure = failureOf(served, error)
    const { message, type, param, code } = describeAiFailure(failure)
    endWith(outgoing, before + protocol.failure({ message, type, param, code }, reader.events))
    throw new EndedEarly(toldEarly(), failure)
  } finally {
    clearTimeout(tail)
    clearInterval(ping)
    silence.stop()
  }
  return told()
}

/** Relays bytes as they arrive. A failure in the middle cuts the connection, so that the client notices the missing rest. */
export async function relayBytes(
  served: ServedBytes,
  outgoing: ServerResponse,
  { headers, timings, kind }: { headers: Record<string, string>; timings: AiTimings; kind: 'audio' | 'video' },
): Promise<Told> {
  const { answer, abort, signal } = served
  if (isDocument(answer)) {
    abort(new BrokenStream())
    throw failureOf(served, new BrokenStream())
  }
  const told: Told = { usage: undefined, outputBytes: 0, responseId: undefined }
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  try {
    for await (const chunk of answer.body) {
      silence.touch()
      if (!outgoing.headersSent) outgoing.writeHead(200, { ...headers, 'content-type': contentTypeOf(answer, kind) })
      if (!outgoing.write(chunk)) await silence.during(drained(outgoing, signal))
    }
  } catch (error) {
    if (error instanceof ClientLeft || outgoing.destroyed) throw new EndedEarly(told, undefined)
    const failure = failureOf(served, error)
    if (!outgoing.headersSent) throw failure
    outgoing.destroy()
    throw new EndedEarly(told, failure)
  } finally {
    silence.stop()
  }
  if (!outgoing.headersSent) throw failureOf(served, new BrokenStream())
  outgoing.end()
  return told
}
