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
  /** True if an event reports a failure of the provider. */
  isFailure(event: Fields): boolean
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

/** Returns the ids of a response's items. */
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
    return this instanceof FailedMidway
      ? new FailedMidway(this.message, before)
      : new BrokenStream(this.message, before)
  }
}

/** The stream reports that the provider failed. */
export class FailedMidway extends BrokenStream {
  override name = 'FailedMidway'
}

export interface StreamReader {
  /** Returns what to forward of a chunk: whole events. Throws BrokenStream. */
  push(chunk: Uint8Array): Buffer | undefined
  /** Call when the stream has ended. Returns what is left to send. Throws BrokenStream if it ended too early. */
  end(): Buffer | undefined
  /** True after the last event: anything after it is ignored. */
  readonly isOver: boolean
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
  /** Set once the provider has reported a failure, or sent something unreadable. */
  failure(): { isUnreadable: boolean } | undefined
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
      throw failure.isUnreadable ? new BrokenStream('An event is not JSON') : new FailedMidway('The provider failed')
    // The target's events no longer contain the choices.
    if (target)
      for (const value of values) {
        const chunk = fieldsOf(value)
        if (chatStream.isFailure(chunk)) throw new FailedMidway('The provider failed')
        choices.note(chunk)
      }
    const text = write(target ? values.flatMap((value) => target.push(value)) : values)
    return source?.isComplete() === true ? text + finish() : text
  }

  /** Returns what to forward of one event; undefined: nothing. */
  function forward(event: SseEvent): Buffer | undefined {
    const { data, bytes } = event
    if (data === undefined || isOver) return undefined
    if (isExcessive(bytes)) throw new BrokenStream('An event is too large')
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
      // Some providers close the stream without sending `[DONE]`.
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
