import { memberOf } from '@platform/ai-protocols/record'
import type { Usage } from '@platform/ai-protocols/usage'
import { mediaTypeOf } from '@platform/service/read-body'
import { TookTooLong } from '../abort-reasons.ts'
import type { AnswerKind } from '../operations.ts'
import { watchSilence } from './silence.ts'
import { AnswerTooLarge, BrokenStream, type StreamReader, ToldFailure } from './stream-reader.ts'
import type { AiTimings } from './timings.ts'
import type { UpstreamAnswer } from './upstream-client.ts'
import { readFailure, WORDS_BYTES_MAX } from './upstream-words.ts'
import type { WholeAnswer, Wire } from './wires.ts'

/** Maximum size of an answer that is read as a whole. */
const WHOLE_BYTES_MAX = 64 * 1_048_576
/** How long to read a document that only says what failed. */
const WORDS_MS = 5_000
/** Maximum bytes of events before the first with content. */
const PRELUDE_BYTES_MAX = 65_536

type Chunks = AsyncIterator<Uint8Array>

/** A stream of events from its first content on. */
export interface JudgedEvents {
  kind: 'events'
  reader: StreamReader
  /** What to forward of the events that were read. */
  held: Buffer
  /** The failure behind them, if it came with them. */
  failure: BrokenStream | undefined
  rest: AsyncIterable<Uint8Array>
}

/** Bytes, which are no document. */
export interface JudgedBytes {
  kind: 'bytes'
  contentType: string
  first: Uint8Array
  rest: AsyncIterable<Uint8Array>
}

/** An answer that has begun, or arrived. */
export type Judged = { kind: 'whole'; document: WholeAnswer } | JudgedEvents | JudgedBytes

/** A provider answered with a status of success, and no answer came. cause: why. */
export class NoAnswer extends Error {
  override name = 'NoAnswer'
  /** False if the provider told at once that it failed, so that it used nothing. */
  readonly isLost: boolean
  readonly usageSoFar: Usage | undefined

  constructor(cause: unknown, { isLost, usageSoFar }: { isLost: boolean; usageSoFar?: Usage | undefined }) {
    super('No answer came', { cause })
    this.isLost = isLost
    this.usageSoFar = usageSoFar
  }
}

/** Reads a document that may say what failed, as far as it is of use. */
export async function readWordsDocument(
  chunks: Chunks,
  abort: (reason: Error) => void,
  first: readonly Uint8Array[] = [],
): Promise<Buffer> {
  const read = [...first]
  let length = read.reduce((sum, chunk) => sum + chunk.length, 0)
  const late = setTimeout(() => abort(new TookTooLong()), WORDS_MS)
  try {
    while (length <= WORDS_BYTES_MAX) {
      const { done, value } = await chunks.next()
      if (done === true) break
      read.push(value)
      length += value.length
    }
  } catch {
    // What arrived is enough.
  } finally {
    clearTimeout(late)
  }
  return Buffer.concat(read)
}

/** True if an error tells that something was used. */
const isCharged = (words: unknown): boolean =>
  Object.values(memberOf(words, 'usage') ?? {}).some((count) => typeof count === 'number' && count > 0)

/** Makes the failure of a document in place of an answer. */
function noAnswerIn(document: Buffer): NoAnswer {
  const words = readFailure(document)
  return words === undefined
    ? new NoAnswer(new BrokenStream('A document'), { isLost: true })
    : new NoAnswer(new ToldFailure(words), { isLost: isCharged(words) })
}

const NOTHING = new Uint8Array()

const restOf = (chunks: Chunks): AsyncIterable<Uint8Array> => ({ [Symbol.asyncIterator]: () => chunks })

async function judgeWhole(chunks: Chunks, wire: Pick<Wire, 'readWhole'>, touch: () => void): Promise<Judged> {
  const read: Uint8Array[] = []
  let length = 0
  for await (const chunk of restOf(chunks)) {
    touch()
    length += chunk.length
    if (length > WHOLE_BYTES_MAX) throw new AnswerTooLarge('The answer is too large')
    read.push(chunk)
  }
  const body = Buffer.concat(read)
  try {
    return { kind: 'whole', document: wire.readWhole(body) }
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error
    throw noAnswerIn(body)
  }
}

const LINE_STARTS = ['data:', 'event:', 'id:', 'retry:', ':']
const SPACE = 0x20
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

/** Returns what an answer begins with, whatever its type says; undefined: too little has arrived. */
function kindOf(bytes: Uint8Array): 'document' | 'events' | 'other' | undefined {
  const beginning = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isMarked = beginning.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
  let from = isMarked ? BYTE_ORDER_MARK.length : 0
  while (from < beginning.length && (beginning[from] ?? 0) <= SPACE) from++
  const start = beginning.toString('latin1', from, from + 6)
  if (/^[{[<]/.test(start)) return 'document'
  if (LINE_STARTS.some((each) => start.startsWith(each))) return 'events'
  return LINE_STARTS.some((each) => each.startsWith(start)) ? undefined : 'other'
}

async function judgeEvents(chunks: Chunks, { answer, wire, abort }: Judging, touch: () => void): Promise<JudgedEvents> {
  const isTyped = mediaTypeOf(answer.contentType) === 'text/event-stream'
  const reader = wire.openReader()
  const held: Buffer[] = []
  /** Undefined once it is known what the answer is. */
  let beginning: Uint8Array | undefined = NOTHING
  const judged = (failure?: BrokenStream): JudgedEvents => {
    return { kind: 'events', reader, held: Buffer.concat(held), failure, rest: restOf(chunks) }
  }
  const keep = (piece: Buffer | undefined) => void (piece && held.push(piece))
  try {
    for (;;) {
      const { done, value = NOTHING } = await chunks.next()
      touch()
      let bytes = value
      if (beginning) {
        bytes = beginning = beginning.length === 0 ? value : Buffer.concat([beginning, value])
        const kind = kindOf(bytes)
        if (kind === 'document') throw noAnswerIn(await readWordsDocument(chunks, abort, [bytes]))
        if (kind === 'other' && !isTyped) throw new BrokenStream('No stream of events')
        if (kind === undefined && done !== true && bytes.length <= PRELUDE_BYTES_MAX) continue
        beginning = undefined
      }
      keep(reader.push(bytes))
      if (done === true) keep(reader.end())
      if (reader.hasContent || reader.isOver) return judged()
      if (done === true || reader.preludeBytes > PRELUDE_BYTES_MAX) throw new BrokenStream('An endless beginning')
    }
  } catch (error) {
    if (error instanceof NoAnswer) throw error
    if (error instanceof BrokenStream && reader.hasContent) return judged(error)
    const isLost = !(error instanceof ToldFailure) || reader.events > 0
    throw new NoAnswer(error, { isLost, usageSoFar: reader.usageSoFar })
  }
}

/** True for an HTML page or an error document, which some providers send with 200: neither is audio or video. */
const isDocument = (contentType: string): boolean =>
  /^(text\/|application\/([a-z.+-]*\+)?(json|xml)$)/.test(mediaTypeOf(contentType))

/** Waits for the first bytes of sound or video. Throws NoAnswer if they are a document. */
export async function judgeBytes({ answer, abort, timings }: Omit<Judging, 'wire' | 'kind'>): Promise<JudgedBytes> {
  const { contentType } = answer
  const chunks = answer.body[Symbol.asyncIterator]()
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  try {
    for (;;) {
      const { done, value } = await chunks.next()
      silence.touch()
      if (done === true) throw new BrokenStream('Nothing')
      if (value.length === 0) continue
      if (isDocument(contentType)) throw noAnswerIn(await readWordsDocument(chunks, abort, [value]))
      return { kind: 'bytes', contentType, first: value, rest: restOf(chunks) }
    }
  } catch (error) {
    throw error instanceof NoAnswer ? error : new NoAnswer(error, { isLost: true })
  } finally {
    silence.stop()
  }
}

interface Judging {
  answer: UpstreamAnswer
  wire: Pick<Wire, 'readWhole' | 'openReader'>
  kind: AnswerKind
  /** Ends the exchange with the provider. */
  abort(reason: Error): void
  timings: AiTimings
}

/**
 * Reads an answer until it is certain that it is one (D117): a document to its end, events up to the first with content, bytes up to
 * the first. Nothing has reached the caller by then, so that another provider can still be asked. Throws NoAnswer.
 */
export async function judge(judging: Judging): Promise<Judged> {
  const { answer, wire, kind, abort, timings } = judging
  if (kind === 'bytes') return judgeBytes(judging)
  const chunks = answer.body[Symbol.asyncIterator]()
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  try {
    if (kind === 'events') return await judgeEvents(chunks, judging, silence.touch)
    return await judgeWhole(chunks, wire, silence.touch)
  } catch (error) {
    throw error instanceof NoAnswer ? error : new NoAnswer(error, { isLost: true })
  } finally {
    silence.stop()
  }
}
