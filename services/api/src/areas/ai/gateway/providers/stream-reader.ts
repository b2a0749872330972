import { listOf, textOf } from '@platform/ai-protocols/record'
import { isExcessive } from './is-excessive.ts'
import { isFailure, isFilled } from './upstream-words.ts'
import { createSseScanner, EventTooLarge, type SseEvent } from '@platform/ai-protocols/sse-scanner'
import { chatChunkTextBytes, responseEventTextBytes } from '@platform/ai-protocols/text-bytes'
import {
  totalInput,
  totalOutput,
  type Usage,
  usageOfChat,
  usageOfResponse,
  usageOfSpeech,
  usageOfTranscription,
} from '@platform/ai-protocols/usage'

/** Maximum size of one event: an image, in base64. */
const EVENT_BYTES_MAX = 32 * 1_048_576
/** Maximum text kept because the last events of the caller's protocol repeat it: many times what models output. */
const KEPT_TEXT_BYTES_MAX = 8 * 1_048_576

/** The stream protocol of an operation. */
export interface StreamProtocol {
  /** Returns the usage that an event reports, if any. */
  usageOf(event: Fields): Usage | undefined
  /** Returns the bytes of text in an event. */
  textBytesOf(event: Fields): number
  /** True if an event has a part of the answer, or its end: until one did, another provider can take over. */
  hasContent(event: Fields): boolean
  /** True for the last event of an answer. */
  isLast(event: Fields): boolean
  /** Returns the id under which the provider stores the answer. */
  idOf?(event: Fields): string | undefined
  /** Returns the ids of the answer's items, if the event reports them. */
  itemIdsOf?(event: Fields): readonly string[]
  /** True for an event that is present only because the gateway requested usage. */
  isUsageAlone?(event: Fields): boolean
  write(event: Fields): string
  /** Ends a stream, after its last event. */
  ending: string
  /** True if an answer consists of choices. */
  hasChoices?: true
  /** True if an answer ends only with its last event. */
  endsTyped?: true
  /** Formats a failure in the middle of a stream. place: number of events before it. */
  failure(error: { message: string; type: string; param: string | null; code: string | null }, place: number): string
}

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})

const isEmptyArray = (value: unknown): boolean => Array.isArray(value) && value.length === 0

const writeData = (event: Fields): string => `data: ${JSON.stringify(event)}\n\n`
const writeTyped = (event: Fields): string => `event: ${String(event['type'])}\n${writeData(event)}`
const DONE = 'data: [DONE]\n\n'
const typedFailure: StreamProtocol['failure'] = (error, place) =>
  writeTyped({
    type: 'error',
    sequence_number: place,
    code: error.code,
    message: error.message,
    param: error.param,
    error,
  })

/** True if a choice has more than its role. A few providers send `text` or `message` in place of a delta. */
function isChoiceBegun(choice: unknown): boolean {
  const { delta, finish_reason: reason, text, message } = fieldsOf(choice)
  if (isFilled(reason) || isFilled(text) || isFilled(message)) return true
  return Object.entries(fieldsOf(delta)).some(([name, value]) => name !== 'role' && isFilled(value))
}

/** Typed events that only announce an answer or a part of it, or keep the connection open. */
const preludes = new Set([
  'keepalive',
  'ping',
  'response.content_part.added',
  'response.created',
  'response.in_progress',
  'response.queued',
  'response.reasoning_summary_part.added',
])
/** Items that are announced before they have content; others are calls. */
const emptyItems = new Set<unknown>(['message', 'reasoning'])

function hasTypedContent({ type, delta, audio, item }: Fields): boolean {
  const name = String(type)
  if (name === 'response.output_item.added') return !emptyItems.has(fieldsOf(item)['type'])
  if (name.endsWith('.delta')) return isFilled(delta) || isFilled(audio)
  return type !== undefined && !preludes.has(name)
}

const bytesOf = (value: unknown): number => (typeof value === 'string' ? Buffer.byteLength(value) : 0)
const dataFailure: StreamProtocol['failure'] = (error) => writeData({ error })

export const chatStream: StreamProtocol = {
  usageOf: ({ usage }) => usageOfChat(usage),
  textBytesOf: chatChunkTextBytes,
  hasContent: ({ choices }) => Array.isArray(choices) && choices.some(isChoiceBegun),
  isLast: () => false,
  isUsageAlone: ({ choices, usage }) => usage != null && isEmptyArray(choices),
  hasChoices: true,
  write: writeData,
  ending: DONE,
  failure: dataFailure,
}

/** Returns the ids of a response's items. */
export const itemIdsOf = (response: unknown): string[] =>
  listOf(response, 'output').flatMap((item) => textOf(item, 'id') ?? [])

const responseEnds = new Set(['response.completed', 'response.incomplete'])
export const responseStream: StreamProtocol = {
  usageOf: ({ response }) => usageOfResponse(fieldsOf(response)['usage']),
  textBytesOf: responseEventTextBytes,
  hasContent: hasTypedContent,
  isLast: ({ type }) => responseEnds.has(String(type)),
  endsTyped: true,
  idOf({ response }) {
    const { id } = fieldsOf(response)
    return typeof id === 'string' ? id : undefined
  },
  itemIdsOf: ({ response }) => itemIdsOf(response),
  write: writeTyped,
  ending: '',
  failure: typedFailure,
}

export const speechStream: StreamProtocol = {
  usageOf: ({ usage }) => usageOfSpeech(usage),
  textBytesOf: () => 0,
  hasContent: hasTypedContent,
  isLast: ({ type }) => type === 'speech.audio.done',
  write: writeTyped,
  ending: '',
  failure: typedFailure,
}

export const transcriptionStream: StreamProtocol = {
  usageOf: ({ usage }) => usageOfTranscription(usage),
  textBytesOf: ({ type, delta }) => (type === 'transcript.text.delta' ? bytesOf(delta) : 0),
  hasContent: hasTypedContent,
  isLast: ({ type }) => type === 'transcript.text.done',
  write: writeTyped,
  ending: '',
  failure: typedFailure,
}

/** The stream violates the protocol. */
export class BrokenStream extends Error {
  override name = 'BrokenStream'
  /** Events of the same chunk before the offending one; they still go to the caller. */
  readonly before: Buffer | undefined

  constructor(message?: string, before?: Buffer) {
    super(message)
    this.before = before
  }

  /** Returns the same failure with these bytes before it. */
  behind(bytes: Buffer): BrokenStream {
    const before = this.before ? Buffer.concat([bytes, this.before]) : bytes
    return this instanceof ToldFailure ? new ToldFailure(this.value, before) : new BrokenStream(this.message, before)
  }
}

/** The answer is larger than any that is taken. */
export class AnswerTooLarge extends BrokenStream {
  override name = 'AnswerTooLarge'
}

/** The provider tells that it failed. value: the event or document with which it does. */
export class ToldFailure extends BrokenStream {
  override name = 'ToldFailure'
  readonly value: unknown

  constructor(value: unknown, before?: Buffer) {
    super('The provider failed', before)
    this.value = value
  }
}

export interface StreamReader {
  /** Returns what to forward of a chunk: whole events. Throws BrokenStream. */
  push(chunk: Uint8Array): Buffer | undefined
  /** Call when the stream has ended. Returns what is left to send. Throws BrokenStream if it ended too early. */
  end(): Buffer | undefined
  /** True after the last event: anything after it is ignored. */
  readonly isOver: boolean
  /** True once an event had a part of the answer, or its end. */
  readonly hasContent: boolean
  /** True once anything shows that the provider works on an answer: an event of it, or usage. */
  readonly hasBegun: boolean
  /** Bytes of the events before that, comments included. */
  readonly preludeBytes: number
  readonly usage: Usage | undefined
  /** The usage, if it was reported after the end of the text: nothing more can be used. */
  readonly finalUsage: Usage | undefined
  /** The provider's usage so far: while the answer continues, only its input is reliable. */
  readonly usageSoFar: Usage | undefined
  readonly outputBytes: number
  /** Number of events forwarded to the caller. */
  readonly events: number
  readonly responseId: string | undefined
  /** Ids of the answer's items, once it is complete. */
  readonly itemIds: readonly string[]
}

/** Translates a provider's own events into the chunks of a chat. */
export interface Source {
  push(event: { data: string | undefined }): readonly unknown[]
  isComplete(): boolean
  /** Returns what is left to translate of an answer whose text is whole, though the provider sent no last event. */
  end(): readonly unknown[]
  /** Set once the provider has reported a failure, or sent something unreadable. */
  failure(): { isUnreadable: boolean; type: string; message: string } | undefined
  /** The provider's usage so far. */
  usage(): Usage | undefined
}

/** Translates the chunks of a chat into the caller's protocol. */
export interface Target {
  push(chunk: unknown): readonly unknown[]
  /** Returns what is left to send once the chat has ended properly. */
  end(): readonly unknown[]
}

interface ReaderOptions {
  protocol: StreamProtocol
  /** For a provider that does not speak chat completions. */
  source?: Source | undefined
  /** For a caller that does not speak chat completions. Without source and target the bytes stay unchanged. */
  target?: Target | undefined
  /** True to remove usage that the caller did not request. */
  dropsUsage: boolean
}

/** Reads a provider's stream event by event, forwards it, and records its usage. */
export function openStreamReader({ protocol, source, target, dropsUsage }: ReaderOptions): StreamReader {
  const scanner = createSseScanner({ eventBytesMax: EVENT_BYTES_MAX })
  let isOver = false
  let hasContent = false
  let hasFailedWithText = false
  let preludeBytes = 0
  const choices = followChoices()
  let usage: Usage | undefined
  let finalUsage: Usage | undefined
  let outputBytes = 0
  let events = 0
  let responseId: string | undefined
  let itemIds: readonly string[] = []

  function note(event: Fields): void {
    const told = protocol.usageOf(event)
    usage = told ?? usage
    if (isFailure(event)) {
      finalUsage = told ?? finalUsage
      hasFailedWithText = protocol.textBytesOf(event) > 0
      throw new ToldFailure(event)
    }
    outputBytes += protocol.textBytesOf(event)
    if (target && outputBytes > KEPT_TEXT_BYTES_MAX) throw new BrokenStream('The answer is too large')
    responseId ??= protocol.idOf?.(event)
    if (protocol.isLast(event)) {
      isOver = true
      itemIds = protocol.itemIdsOf?.(event) ?? []
    }
    hasContent ||= isOver || protocol.hasContent(event)
    choices.note(event)
    if (told && (isOver || choices.areFinished)) finalUsage = told
  }
  function scan(chunk: Uint8Array): SseEvent[] {
    try {
      return scanner.push(chunk)
    } catch (error) {
      if (error instanceof EventTooLarge) throw new BrokenStream('An event is too large')
      throw error
    }
  }
  const isDropped = (event: Fields) => dropsUsage && protocol.isUsageAlone?.(event) === true

  /** Writes events in the caller's protocol. */
  function write(values: readonly unknown[]): string {
    let text = ''
    for (const value of values) {
      const event = fieldsOf(value)
      try {
        note(event)
      } catch (error) {
        throw error instanceof BrokenStream ? error.behind(Buffer.from(text)) : error
      }
      if (isDropped(event)) continue
      events++
      text += protocol.write(event)
    }
    return text
  }

  /** Returns what follows the provider's last event. */
  function finish(): string {
    isOver = true
    return (target ? write(target.end()) : '') + protocol.ending
  }

  function translate(event: SseEvent): string {
    const values = source ? source.push(event) : [parse(event.data)]
    const failure = source?.failure()
    if (failure)
      throw failure.isUnreadable ? new BrokenStream('An event is not JSON') : new ToldFailure({ error: failure })
    const text = writeChunks(values)
    return source?.isComplete() === true ? text + finish() : text
  }

  /** Writes chunks of a chat in the caller's protocol. */
  function writeChunks(values: readonly unknown[]): string {
    if (!target) return write(values)
    // The target's events no longer contain the choices.
    for (const value of values) {
      if (isFailure(value)) throw new ToldFailure(value)
      choices.note(fieldsOf(value))
    }
    return write(values.flatMap((value) => target.push(value)))
  }

  /** Returns what to forward of one event; undefined: nothing. */
  function forward(event: SseEvent): Buffer | undefined {
    const { data, bytes } = event
    if (data === undefined || isOver) return undefined
    if (isExcessive(bytes)) throw new BrokenStream('An event is too large')
    if (event.event === 'error') throw new ToldFailure(parseOr(data, { error: data }))
    if (data === '[DONE]') {
      // Other protocols and typed events have an explicit last event. Chat chunks may lack finish reasons, but not choices.
      if (source) throw new BrokenStream('The stream ended early')
      if (target) return Buffer.from(finish())
      if (protocol.endsTyped === true || (protocol.hasChoices === true && !choices.haveBegun))
        throw new BrokenStream('The stream ended early')
      isOver = true
      return bytes
    }
    if (source ?? target) {
      const text = translate(event)
      return text === '' ? undefined : Buffer.from(text)
    }
    const fields = fieldsOf(parse(data))
    note(fields)
    if (isDropped(fields)) return undefined
    events++
    return bytes
  }

  function push(chunk: Uint8Array): Buffer | undefined {
    const scanned = scan(chunk)
    const pieces: Buffer[] = []
    for (const event of scanned) {
      try {
        const piece = forward(event)
        if (!hasContent) preludeBytes += event.bytes.length
        if (scanned.length === 1) return piece
        if (piece) pieces.push(piece)
      } catch (error) {
        throw error instanceof BrokenStream ? error.behind(Buffer.concat(pieces)) : error
      }
    }
    return pieces.length === 0 ? undefined : Buffer.concat(pieces)
  }

  /** Returns what to forward of a last event without a blank line; once the text is whole, half an event is ignored. */
  function pushRest(): Buffer | undefined {
    try {
      return push(Buffer.from('\n\n'))
    } catch (error) {
      if (!choices.areFinished || error instanceof ToldFailure) throw error
      return undefined
    }
  }

  return {
    push,
    end() {
      if (isOver) return undefined
      const rest = pushRest()
      if (isOver) return rest
      // Some providers close the stream without sending `[DONE]`.
      if (!choices.areFinished) throw new BrokenStream('The stream ended early', rest)
      const left = source ? writeChunks(source.end()) : ''
      return Buffer.concat([rest ?? Buffer.alloc(0), Buffer.from(left + finish())])
    },
    get isOver() {
      return isOver
    },
    get hasContent() {
      return hasContent
    },
    get hasBegun() {
      const told = usage ?? source?.usage()
      return events > 0 || hasFailedWithText || (told !== undefined && totalInput(told) + totalOutput(told) > 0)
    },
    get preludeBytes() {
      return preludeBytes
    },
    get usage() {
      return usage
    },
    get finalUsage() {
      return finalUsage ?? (choices.areFinished ? source?.usage() : undefined)
    },
    get usageSoFar() {
      return usage ?? source?.usage()
    },
    get outputBytes() {
      return outputBytes
    },
    get events() {
      return events
    },
    get responseId() {
      return responseId
    },
    get itemIds() {
      return itemIds
    },
  }
}

function parse(data: string | undefined): unknown {
  try {
    return JSON.parse(data ?? '') as unknown
  } catch {
    throw new BrokenStream('An event is not JSON')
  }
}

function parseOr(data: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(data) as unknown
  } catch {
    return otherwise
  }
}

/** Tracks the choices of a chat, of which there may be several (`n`). */
function followChoices() {
  const begun = new Set<unknown>()
  const finished = new Set<unknown>()
  return {
    note({ choices }: Fields): void {
      if (!Array.isArray(choices)) return
      for (const choice of choices) {
        const { index, finish_reason: reason } = fieldsOf(choice)
        begun.add(index)
        // Some providers send an empty finish reason with each chunk.
        if (reason != null && reason !== '') finished.add(index)
      }
    },
    get haveBegun() {
      return begun.size > 0
    },
    /** True once every choice that began has a finish reason. */
    get areFinished() {
      return begun.size > 0 && finished.size === begun.size
    },
  }
}
