import type { ServerResponse } from 'node:http'
import type { AiError } from '@platform/errors/ai-error'
import type { Usage } from '@platform/ai-protocols/usage'
import { mediaTypeOf } from '@platform/service/read-body'
import { ClientLeft, TookTooLong } from './abort-reasons.ts'
import type { EventStream } from './event-stream.ts'
import type { Served } from './providers/dispatch.ts'
import type { JudgedBytes, JudgedEvents } from './providers/judge.ts'
import { watchSilence } from './providers/silence.ts'
import { BrokenStream } from './providers/stream-reader.ts'
import type { AiTimings } from './providers/timings.ts'
import { failureOfExchange } from './providers/upstream-failure.ts'

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
const contentTypeOf = ({ contentType }: JudgedBytes, kind: 'audio' | 'video'): string => {
  const type = mediaTypeOf(contentType)
  const isOfKind = new RegExp(`^${kind}/[a-z0-9.+-]{1,64}$`).test(type) || (kind === 'video' && type === 'image/gif')
  return isOfKind ? type : 'application/octet-stream'
}

/** An answer under way, and how to end it. */
export type Relayed = Pick<Served, 'attempt' | 'abort' | 'signal' | 'route'>

/** Returns the failure that ended an answer midway, and notes it in the attempt. */
function failMidway({ attempt, route }: Pick<Relayed, 'attempt' | 'route'>, error: unknown): AiError {
  const { failure, name } = failureOfExchange(route, error)
  attempt.error = name
  return failure
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

interface EventRelay {
  timings: AiTimings
  /** Called with the id of an answer as soon as the provider reports it, before the caller gets it. */
  keep(responseId: string): Promise<void>
  /** Called once the answer is complete, before the caller sees that. */
  complete(answer: KeptAnswer): Promise<void>
}

/**
 * Relays a stream of events, event by event. A failure in the middle becomes a frame of the protocol. Returns the reported usage;
 * throws EndedEarly.
 */
export async function relayEvents(
  relayed: Relayed,
  { reader, held, failure: heldFailure, rest }: JudgedEvents,
  stream: EventStream,
  { timings, keep, complete }: EventRelay,
): Promise<Told> {
  const { abort, signal } = relayed
  const { outgoing } = stream
  const told = (): Told => {
    const { usage, outputBytes, responseId } = reader
    return { usage, outputBytes, responseId }
  }
  let stalledMs = 0
  const toldEarly = (): Told => {
    const { finalUsage: usage, usageSoFar, outputBytes, responseId } = reader
    return { usage, usageSoFar, outputBytes, responseId, wasStalled: stalledMs > timings.stalledMs }
  }
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  let tail: NodeJS.Timeout | undefined
  let kept: string | undefined
  /** Sends what the reader has made of some bytes. */
  async function pass(piece: Buffer | undefined): Promise<void> {
    if (reader.responseId !== kept) {
      kept = reader.responseId
      if (kept !== undefined) await keep(kept)
    }
    if (reader.isOver) await complete(reader)
    if (piece && !stream.write(piece)) {
      const stalledAt = performance.now()
      try {
        await silence.during(drained(outgoing, signal))
      } finally {
        stalledMs += performance.now() - stalledAt
      }
    }
    if (!reader.isOver) return
    // The connection becomes reusable once the provider has ended the body; the client need not wait for that.
    stream.end()
    tail = setTimeout(() => abort(new TookTooLong()), TAIL_MS)
  }
  try {
    await pass(held)
    if (heldFailure) throw heldFailure
    for await (const chunk of rest) {
      if (tail) continue
      silence.touch()
      await pass(reader.push(chunk))
    }
    if (!reader.isOver) await pass(reader.end())
  } catch (error) {
    if (tail) return told()
    if (error instanceof ClientLeft || outgoing.destroyed) throw new EndedEarly(toldEarly(), undefined)
    abort(new BrokenStream())
    const failure = failMidway(relayed, error)
    stream.fail(failure, { before: error instanceof BrokenStream ? error.before : undefined, place: reader.events })
    throw new EndedEarly(toldEarly(), failure)
  } finally {
    clearTimeout(tail)
    silence.stop()
  }
  return told()
}

/** Relays bytes as they arrive. A failure in the middle cuts the connection, so that the client notices the missing rest. */
export async function relayBytes(
  relayed: Relayed,
  judged: JudgedBytes,
  outgoing: ServerResponse,
  { headers, timings, kind }: { headers: Record<string, string>; timings: AiTimings; kind: 'audio' | 'video' },
): Promise<Told> {
  const { abort, signal } = relayed
  const told: Told = { usage: undefined, outputBytes: 0, responseId: undefined }
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  const pass = async (chunk: Uint8Array) => {
    if (!outgoing.write(chunk)) await silence.during(drained(outgoing, signal))
  }
  try {
    outgoing.writeHead(200, { ...headers, 'content-type': contentTypeOf(judged, kind) })
    await pass(judged.first)
    for await (const chunk of judged.rest) {
      silence.touch()
      await pass(chunk)
    }
  } catch (error) {
    if (error instanceof ClientLeft || outgoing.destroyed) throw new EndedEarly(told, undefined)
    const failure = failMidway(relayed, error)
    outgoing.destroy()
    throw new EndedEarly(told, failure)
  } finally {
    silence.stop()
  }
  outgoing.end()
  return told
}
