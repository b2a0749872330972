import { listOf, textOf } from '@platform/ai-protocols/record'
import { isExcessive } from './is-excessive.ts'
import { createSseScanner, EventTooLarge, type SseEvent } from '@platform/ai-protocols/sse-scanner'
import { chatChunkTextBytes, responseEventTextBytes } from '@platform/ai-protocols/text-bytes'
import {
  type Usage,
  usageOfChat,
  usageOfResponse,
  usageOfSpeech,
  usageOfTranscription,
} from '@platform/ai-protocols/usage'

/** One event of a stream may be so large: a picture, in base64. */
const EVENT_BYTES_MAX = 32 * 1_048_576
/** Text of a stream that is kept for the caller's protocol, whose last events repeat it: many times what models put out. */
const KEPT_TEXT_BYTES_MAX = 8 * 1_048_576

/** The events of an operation's streams. */
export interface StreamProtocol {
  /** What one event tells of the usage, if it does. */
  usageOf(event: Fields): Usage | undefined
  /** Bytes of the text that one event brings. */
  textBytesOf(event: Fields): number
  /** True of an event that says that the provider failed. */
  isFailure(event: Fields): boolean
  /** True of the event behind which nothing belongs to the answer any more. */
  isLast(event: Fields): boolean
  /** The id that the provider keeps the answer under. */
  idOf?(event: Fields): string | undefined
  /** The ids of what the answer consists of, where an event tells them. */
  itemIdsOf?(event: Fields): readonly string[]
  /** True of an event that is only there because the gateway asked for usage. */
  isUsageAlone?(event: Fields): boolean
  write(event: Fields): string
  /** What a stream ends with, behind its last event. */
  ending: string
  /** True where an answer consists of choices. */
  hasChoices?: true
  /** True where an answer ends with its last event only. */
  endsTyped?: true
  /** The frame of a failure in the middle. place: how many events came before. */
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
const bytesOf = (value: unknown): number => (typeof value === 'string' ? Buffer.byteLength(value) : 0)
const dataFailure: StreamProtocol['failure'] = (error) => writeData({ error })

export const chatStream: StreamProtocol = {
  usageOf: ({ usage }) => usageOfChat(usage),
  textBytesOf: chatChunkTextBytes,
  isFailure: ({ error }) => error != null,
  isLast: () => false,
  isUsageAlone: ({ choices, usage }) => usage != null && isEmptyArray(choices),
  hasChoices: true,
  write: writeData,
  ending: DONE,
  failure: dataFailure,
}

/** The ids of the items of a response. */
export const itemIdsOf = (response: unknown): string[] =>
  listOf(response, 'output').flatMap((item) => textOf(item, 'id') ?? [])

const responseEnds = new Set(['response.completed', 'response.incomplete'])
export const responseStream: StreamProtocol = {
  usageOf: ({ response }) => usageOfResponse(fieldsOf(response)['usage']),
  textBytesOf: responseEventTextBytes,
  isFailure: ({ type, error }) =>
    type === 'error' || type === 'response.failed' || (type === undefined && error != null),
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
  isFailure: ({ type, error }) => type === 'error' || error != null,
  isLast: ({ type }) => type === 'speech.audio.done',
  write: writeTyped,
  ending: '',
  failure: typedFailure,
}

export const transcriptionStream: StreamProtocol = {
  usageOf: ({ usage }) => usageOfTranscription(usage),
  textBytesOf: ({ type, delta }) => (type === 'transcript.text.delta' ? bytesOf(delta) : 0),
  isFailure: ({ type, error }) => type === 'error' || error != null,
  isLast: ({ type }) => type === 'transcript.text.done',
  write: writeTyped,
  ending: '',
  failure: typedFailure,
}

/** The stream is not what the protocol says. */
export class BrokenStream extends Error {
  override name = 'BrokenStream'
  /** What of the same chunk goes to the caller all the same: the events before the one that is to blame. */
  readonly before: Buffer | undefined

  constructor(message?: string, before?: Buffer) {
    super(message)
    this.before = before
  }

  /** The same failure, behind these bytes. */
  behind(bytes: Buffer): BrokenStream {
    const before = this.before ? Buffer.concat([bytes, this.before]) : bytes
    return this instanceof FailedMidway
      ? new FailedMidway(this.message, before)
      : new BrokenStream(this.message, before)
  }
}

/** The stream says that the provider failed. */
export class FailedMidway extends BrokenStream {
  override name = 'FailedMidway'
}

export interface StreamReader {
  /** What of a chunk goes to the caller: whole events. Throws BrokenStream. */
  push(chunk: Uint8Array): Buffer | undefined
  /** The stream ended: what is still to be sent. Throws BrokenStream where it ended too early. */
  end(): Buffer | undefined
  /** True once the last event was there: what follows is not read. */
  readonly isOver: boolean
  readonly usage: Usage | undefined
  /** The same where it was told once the text had ended: nothing more can be used. */
  readonly finalUsage: Usage | undefined
  /** What the provider has told of its usage so far: while the answer goes on, only the input of it is sure. */
  readonly usageSoFar: Usage | undefined
  readonly outputBytes: number
  /** How many events went to the caller. */
  readonly events: number
  readonly responseId: string | undefined
  /** Of what the answer consists of, once it is whole. */
  readonly itemIds: readonly string[]
}

/** What a provider's own events are in the chunks of a chat. */
export interface Source {
  push(event: { data: string | undefined }): readonly unknown[]
  isComplete(): boolean
  /** Set once the provider has told of a failure, or of something that cannot be read. */
  failure(): { isUnreadable: boolean } | undefined
  /** What the provider has told so far. */
  usage(): Usage | undefined
}

/** What the chunks of a chat are in the caller's protocol. */
export interface Target {
  push(chunk: unknown): readonly unknown[]
  /** What is left to say once the chat has ended as it should. */
  end(): readonly unknown[]
}

interface ReaderOptions {
  protocol: StreamProtocol
  /** Of a provider that speaks no chat. */
  source?: Source | undefined
  /** Of a caller that does not. Without both the bytes stay as they are. */
  target?: Target | undefined
  /** True if usage that nobody asked for is left out. */
  dropsUsage: boolean
}

/** Reads the stream of a provider event by event, forwards it, and notes what it tells of its usage. */
export function openStreamReader({ protocol, source, target, dropsUsage }: ReaderOptions): StreamReader {
  const scanner = createSseScanner({ eventBytesMax: EVENT_BYTES_MAX })
  let isOver = false
  const choices = followChoices()
  let usage: Usage | undefined
  let finalUsage: Usage | undefined
  let outputBytes = 0
  let events = 0
  let responseId: string | undefined
  let itemIds: readonly string[] = []

  function note(event: Fields): void {
    if (protocol.isFailure(event)) throw new FailedMidway('The provider failed')
    outputBytes += protocol.textBytesOf(event)
    if (target && outputBytes > KEPT_TEXT_BYTES_MAX) throw new BrokenStream('The answer is too large')
    responseId ??= protocol.idOf?.(event)
    if (protocol.isLast(event)) {
      isOver = true
      itemIds = protocol.itemIdsOf?.(event) ?? []
    }
    choices.note(event)
    const told = protocol.usageOf(event)
    if (!told) return
    usage = told
    if (isOver || choices.areFinished) finalUsage = told
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

  /** Events as the caller's protocol has them. */
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

  /** What comes behind the provider's last event. */
  function finish(): string {
    isOver = true
    return (target ? write(target.end()) : '') + protocol.ending
  }

  function translate(event: SseEvent): string {
    const values = source ? source.push(event) : [parse(event.data)]
    const failure = source?.failure()
    if (failure)
      throw failure.isUnreadable ? new BrokenStream('An event is not JSON') : new FailedMidway('The provider failed')
    // What the target makes of them has no choices any more.
    if (target)
      for (const value of values) {
        const chunk = fieldsOf(value)
        if (chatStream.isFailure(chunk)) throw new FailedMidway('The provider failed')
        choices.note(chunk)
      }
    const text = write(target ? values.flatMap((value) => target.push(value)) : values)
    return source?.isComplete() === true ? text + finish() : text
  }

  /** What of one event goes on; undefined: nothing. */
  function forward(event: SseEvent): Buffer | undefined {
    const { data, bytes } = event
    if (data === undefined || isOver) return undefined
    if (isExcessive(bytes)) throw new BrokenStream('An event is too large')
    if (data === '[DONE]') {
      // What speaks no chat ends by an event of its own, and so do typed events. Chunks may lack their reasons, but not their choices.
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

  return {
    push(chunk) {
      const events = scan(chunk)
      if (events.length === 1 && events[0]) return forward(events[0])
      const pieces: Buffer[] = []
      for (const event of events) {
        try {
          const piece = forward(event)
          if (piece) pieces.push(piece)
        } catch (error) {
          throw error instanceof BrokenStream ? error.behind(Buffer.concat(pieces)) : error
        }
      }
      return pieces.length === 0 ? undefined : Buffer.concat(pieces)
    },
    end() {
      if (isOver) return undefined
      // Some providers close the stream instead of saying that it is done.
      if (!choices.areFinished) throw new BrokenStream('The stream ended early')
      return Buffer.from(finish())
    },
    get isOver() {
      return isOver
    },
    get usage() {
      return usage
    },
    get finalUsage() {
      return finalUsage
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

/** Follows the choices of a chat, of which `n` may be several at a time. */
function followChoices() {
  const begun = new Set<unknown>()
  const finished = new Set<unknown>()
  return {
    note({ choices }: Fields): void {
      if (!Array.isArray(choices)) return
      for (const choice of choices) {
        const { index, finish_reason: reason } = fieldsOf(choice)
        begun.add(index)
        // Some providers send an empty reason with each chunk.
        if (reason != null && reason !== '') finished.add(index)
      }
    },
    get haveBegun() {
      return begun.size > 0
    },
    /** True once each that began has said why it ended. */
    get areFinished() {
      return begun.size > 0 && finished.size === begun.size
    },
  }
}
