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
/** How often the request may be repeated in them: three events do, with escapes that the caller did not need. */
const ECHOES_MAX = 6

type Chunks = AsyncIterator<Uint8Array, undefined>

/** What a provider told of the usage of an answer that did not come: of all of it, or so far. */
export interface LostUsage {
  usage?: Usage | undefined
  usageSoFar?: Usage | undefined
}

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
  readonly told: LostUsage

  constructor(cause: unknown, { isLost, told = {} }: { isLost: boolean; told?: LostUsage }) {
    super('No answer came', { cause })
    this.isLost = isLost
    this.told = told
  }
}

/** The body of an answer broke off. cause: why. */
class BrokenBody extends Error {
  override name = 'BrokenBody'
}

async function nextOf(chunks: Chunks): Promise<IteratorResult<Uint8Array, undefined>> {
  try {
    return await chunks.next()
  } catch (cause) {
    throw new BrokenBody('The body broke off', { cause })
  }
}

const chunksOf = ({ body }: UpstreamAnswer): Chunks => body[Symbol.asyncIterator]() as Chunks
const restOf = (chunks: Chunks): AsyncIterable<Uint8Array> => ({ [Symbol.asyncIterator]: () => chunks })

/** Reads a document that may say what failed, as far as it is of use. */
async function readWordsIn(chunks: Chunks, abort: Ending['abort'], first: readonly Uint8Array[]): Promise<Buffer> {
  const read = [...first]
  let length = read.reduce((sum, chunk) => sum + chunk.length, 0)
  const late = setTimeout(() => abort(new TookTooLong()), WORDS_MS)
  try {
    while (length <= WORDS_BYTES_MAX) {
      const { done, value } = await nextOf(chunks)
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

/** Reads the document under an error status, as far as it is of use. */
export const readWordsOf = (answer: UpstreamAnswer, abort: Ending['abort']): Promise<Buffer> =>
  readWordsIn(chunksOf(answer), abort, [])

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

/** Makes a failure of the provider of what ended an answer; any other error stays as it is. */
function noAnswerBy(error: unknown, { isLost, told }: { isLost: boolean; told?: LostUsage }): unknown {
  if (error instanceof BrokenBody) return new NoAnswer(error.cause, { isLost: true, ...(told && { told }) })
  return error instanceof BrokenStream ? new NoAnswer(error, { isLost, ...(told && { told }) }) : error
}

/** An answer, and how to end its exchange. */
interface Ending {
  answer: UpstreamAnswer
  /** Ends the exchange with the provider. */
  abort(reason: Error): void
  timings: AiTimings
}

interface Judging extends Ending {
  wire: Pick<Wire, 'readWhole' | 'openReader'>
  kind: AnswerKind
  /** Returns the size of the request in bytes. Formats all of it. */
  requestBytes(): number
}

async function judgeWhole(chunks: Chunks, { answer, wire }: Judging, touch: () => void): Promise<Judged> {
  const read: Uint8Array[] = []
  let length = 0
  for (;;) {
    const { done, value } = await nextOf(chunks)
    touch()
    if (done === true) break
    length += value.length
    if (length > WHOLE_BYTES_MAX) throw new AnswerTooLarge('The answer is too large')
    read.push(value)
  }
  const body = Buffer.concat(read)
  // A transcript in plain text could be anything.
  if (mediaTypeOf(answer.contentType) === 'text/html' && withoutBlanks(body).indexOf('<') === 0) throw noAnswerIn(body)
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

/** Returns bytes without the white space at their start, but with a byte order mark before it. */
function withoutBlanks(bytes: Buffer): Buffer {
  const isMarked = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
  const first = isMarked ? BYTE_ORDER_MARK.length : 0
  let from = first
  while (from < bytes.length && (bytes[from] ?? 0) <= SPACE) from++
  if (from === first) return bytes
  return isMarked ? Buffer.concat([BYTE_ORDER_MARK, bytes.subarray(from)]) : bytes.subarray(from)
}

/** Returns what an answer begins with, whatever its type says; undefined: too little has arrived. */
function kindOf(beginning: Buffer): 'document' | 'events' | 'other' | undefined {
  if (beginning.equals(BYTE_ORDER_MARK.subarray(0, beginning.length))) return undefined
  const start = beginning.toString('utf8', 0, BYTE_ORDER_MARK.length + 6).replace(/^\ufeff/, '')
  if (/^[{[<]/.test(start)) return 'document'
  if (LINE_STARTS.some((each) => start.startsWith(each))) return 'events'
  return LINE_STARTS.some((each) => each.startsWith(start)) ? undefined : 'other'
}

/** Waits for the first bytes of a stream of events, and returns them without blanks. Throws for a document. */
async function readBeginning(chunks: Chunks, { answer, abort }: Judging, touch: () => void): Promise<Buffer> {
  const isTyped = mediaTypeOf(answer.contentType) === 'text/event-stream'
  let beginning: Buffer = Buffer.alloc(0)
  for (let bytesRead = 0; bytesRead <= PRELUDE_BYTES_MAX;) {
    const { done, value } = await nextOf(chunks)
    touch()
    if (done === true) return beginning
    bytesRead += value.length
    beginning = withoutBlanks(Buffer.concat([beginning, value]))
    const kind = kindOf(beginning)
    if (kind === 'document') throw noAnswerIn(await readWordsIn(chunks, abort, [beginning]))
    if (kind === 'events' || (kind === 'other' && isTyped)) return beginning
    if (kind === 'other') break
  }
  throw new BrokenStream('No stream of events')
}

async function judgeEvents(chunks: Chunks, judging: Judging, touch: () => void): Promise<JudgedEvents> {
  const { wire, requestBytes } = judging
  let bytes: Uint8Array = await readBeginning(chunks, judging, touch)
  const reader = wire.openReader()
  const held: Buffer[] = []
  let echoBytesMax: number | undefined
  const keep = (piece: Buffer | undefined) => void (piece && held.push(piece))
  const judged = (failure?: BrokenStream): JudgedEvents => {
    return { kind: 'events', reader, held: Buffer.concat(held), failure, rest: restOf(chunks) }
  }
  try {
    for (;;) {
      keep(reader.push(bytes))
      if (reader.hasContent || reader.isOver) return judged()
      const excess = reader.preludeBytes - PRELUDE_BYTES_MAX
      // The first events of a response repeat the request, whose size takes long to find if it is large.
      if (excess > 0 && excess > (echoBytesMax ??= ECHOES_MAX * requestBytes()))
        throw new BrokenStream('An endless beginning')
      const next = await nextOf(chunks)
      touch()
      if (next.done === true) {
        keep(reader.end())
        return judged()
      }
      bytes = next.value
    }
  } catch (error) {
    if (error instanceof BrokenStream && reader.hasContent) return judged(error)
    const isLost = !(error instanceof ToldFailure) || reader.hasBegun
    throw noAnswerBy(error, { isLost, told: { usage: reader.finalUsage, usageSoFar: reader.usageSoFar } })
  }
}

/** True for an HTML page or an error document, which some providers send with 200: neither is audio or video. */
const isDocument = (contentType: string): boolean =>
  /^(text\/|application\/([a-z.+-]*\+)?(json|xml)$)/.test(mediaTypeOf(contentType))

/** Waits for the first bytes of sound or video. Throws for a document. */
async function judgeFirst(chunks: Chunks, { answer, abort }: Ending, touch: () => void): Promise<JudgedBytes> {
  const { contentType } = answer
  for (;;) {
    const { done, value } = await nextOf(chunks)
    touch()
    if (done === true) throw new BrokenStream('Nothing')
    if (value.length === 0) continue
    if (isDocument(contentType)) throw noAnswerIn(await readWordsIn(chunks, abort, [value]))
    return { kind: 'bytes', contentType, first: value, rest: restOf(chunks) }
  }
}

/** Reads the beginning of an answer; ends the exchange if the provider is silent, or the answer is none. */
async function begin<J extends Judged>(
  { answer, abort, timings }: Ending,
  read: (chunks: Chunks, touch: () => void) => Promise<J>,
): Promise<J> {
  const silence = watchSilence(timings.idleMs, () => abort(new TookTooLong()))
  try {
    return await read(chunksOf(answer), silence.touch)
  } catch (error) {
    abort(new BrokenStream())
    throw error instanceof NoAnswer ? error : noAnswerBy(error, { isLost: true })
  } finally {
    silence.stop()
  }
}

/** Judges sound or video, as `judge` does. */
export const judgeBytes = (ending: Ending): Promise<JudgedBytes> =>
  begin(ending, (chunks, touch) => judgeFirst(chunks, ending, touch))

/**
 * Reads an answer until it is certain that it is one (D117): a document to its end, events up to the first with content, bytes up to
 * the first. Nothing has reached the caller by then, so that another provider can still be asked. Throws NoAnswer, and ends the
 * exchange then.
 */
export function judge(judging: Judging): Promise<Judged> {
  if (judging.kind === 'bytes') return judgeBytes(judging)
  return begin<Judged>(judging, (chunks, touch) =>
    judging.kind === 'events' ? judgeEvents(chunks, judging, touch) : judgeWhole(chunks, judging, touch),
  )
}
