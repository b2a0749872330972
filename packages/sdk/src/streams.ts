import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { abortable } from './abortable.ts'
import { PlatformError } from './errors.ts'
import type {
  Activity,
  ApplicationRuntimeLog,
  BuildLog,
  ChatCompletion,
  Deployment,
  RequestLog,
  RuntimeLog,
} from './generated/types.ts'
import type { Operation, Params } from './operation.ts'
import type { Spec } from './spec.ts'
import { pause } from './pause.ts'
import type { Platform } from './platform.ts'
import type { CallOptions } from './sender.ts'
import { repeat } from './repetition.ts'
import { prepare } from './request.ts'

interface Happened<Name, Data> {
  event: Name
  /** Absent for what has no place in the order, such as a status. */
  id?: string
  data: Data
}

interface Events {
  '/deployments/{id}/logs/stream':
    | Happened<'log', BuildLog>
    | Happened<'status', Pick<Deployment, 'status' | 'failureReason'>>
    | Happened<'end', unknown>
  '/deployments/{id}/runtime-logs/stream': Happened<'log', RuntimeLog>
  '/applications/{id}/runtime-logs/stream': Happened<'log', ApplicationRuntimeLog>
  '/applications/{id}/requests/stream':
    | Happened<'request', RequestLog>
    /** That many were left out, since the reader was slow or away for too long. */
    | Happened<'gap', { missed: number; isMore: boolean }>
  '/applications/{id}/activity/stream': Happened<Activity['type'], Activity>
}

/** The events of a streaming operation. */
export type EventOf<D> = D extends { url: keyof Events } ? Events[D['url']] : Happened<string, unknown>

export interface FollowOptions {
  /** Ends the stream; the loop then throws the signal's reason. */
  signal?: AbortSignal | undefined
  /** The id of the last event that is known: the stream goes on after it. */
  lastEventId?: string | undefined
  /**
   * `live` once connected; `waiting` between connections; `polling` while too many streams of the resource are open, and the list
   * is read every five seconds.
   */
  onState?: ((state: 'live' | 'waiting' | 'polling') => void) | undefined
  /**
   * Called for each piece that arrives, the beats of a silent stream included, and for each answer while polling: what was shown
   * until then was current at that time.
   */
  onBeat?: (() => void) | undefined
}

/** The platform beats every 15 s. */
const IDLE_MS = 60_000
const POLL_MS = 5_000
const BACKOFF_MS_MAX = 8_000
/** As many ids are kept to know a double by. */
const SEEN_MAX = 2_000

/**
 * The events of a stream, for as long as the loop wants them. A cut, the end of the token and the platform's own end after 15
 * minutes are bridged by `Last-Event-ID`: nothing is lost, nothing comes twice. A stream that ends for good ends the loop.
 *
 * Throws PlatformError where the platform refuses the stream.
 */
export async function* follow<D extends object>(
  operation: Operation<D, string | void>,
  platform: Platform,
  params: Params<Omit<D, 'headers'>>,
  { signal, lastEventId, onState, onBeat }: FollowOptions = {},
): AsyncGenerator<EventOf<D>, void, undefined> {
  const { spec } = operation
  const startedAt = new Date()
  const seen = new Set<string>()
  let [last, status, retryMs, failures] = [lastEventId, '', 500, 0]
  /** Whether the event is new; remembers it. */
  const isNew = ({ event, id, data }: EventSourceMessage): boolean => {
    if (id === undefined) return event !== 'status' || status !== (status = data)
    if (seen.has(id)) return false
    last = id
    seen.add(id)
    if (seen.size > SEEN_MAX) seen.delete(seen.values().next().value as string)
    return true
  }
  for (;;) {
    let waitMs: number | undefined
    try {
      const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last }
      const body = await platform.send(
        prepare(platform.baseUrl, spec, params as Record<string, unknown>, {}, headers),
        { signal, retries: 0 },
        (answer) => Promise.resolve(answer.status === 204 ? null : answer.body),
      )
      if (body === null) return
      onState?.('live')
      for await (const message of messagesOf(body, signal, (ms) => (retryMs = ms), onBeat)) {
        failures = 0
        if (!isNew(message)) continue
        yield happened(message) as EventOf<D>
        if (message.event === 'end') return
      }
    } catch (error) {
      if (signal?.aborted) throw error
      if (error instanceof PlatformError && !error.retryable) {
        if (error.code !== 'too_many_concurrent_streams') throw error
        onState?.('polling')
        const listed = await poll(platform, spec, params, last, startedAt, signal).catch((failure: unknown) => {
          if (!(failure instanceof PlatformError && failure.retryable)) throw failure
        })
        if (listed) {
          onBeat?.()
          waitMs = POLL_MS
        }
        for (const message of listed ?? []) {
          if (!isNew(message)) continue
          yield happened(message) as EventOf<D>
          if (message.event === 'end') return
        }
      }
    }
    if (waitMs === undefined) {
      onState?.('waiting')
      waitMs = Math.random() * Math.min(retryMs * 2 ** failures++, BACKOFF_MS_MAX)
    }
    await pause(waitMs, signal)
  }
}

const happened = ({ event = 'message', id, data }: EventSourceMessage): Happened<string, unknown> => ({
  event,
  ...(id !== undefined && { id }),
  data: JSON.parse(data) as unknown,
})

/** Whole events of a body. Throws where it is cut, and when it is silent for a minute. */
async function* messagesOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
  onRetry: (ms: number) => void = () => {},
  onPiece: () => void = () => {},
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const messages: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (message) => void messages.push(message), onRetry })
  const utf8 = new TextDecoder()
  const reader = body.getReader()
  try {
    for (;;) {
      const silence = new AbortController()
      const timer = setTimeout(() => silence.abort(new Error(`silent for ${IDLE_MS / 1_000} s`)), IDLE_MS)
      const stop = () => silence.abort(signal?.reason)
      signal?.addEventListener('abort', stop)
      if (signal?.aborted) stop()
      const { done, value } = await abortable(reader.read(), silence.signal).finally(() => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', stop)
      })
      if (done) return
      onPiece()
      parser.feed(utf8.decode(value, { stream: true }))
      yield* messages.splice(0)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** What the list behind a stream says, as the stream would say it: events after the last one known, oldest first. */
async function poll(
  platform: Platform,
  { path }: Spec,
  params: Record<string, unknown>,
  last: string | undefined,
  startedAt: Date,
  signal: AbortSignal | undefined,
): Promise<EventSourceMessage[]> {
  const read = <T>(from: string, query: string[], members: Record<string, unknown>): Promise<T> => {
    const spec = { method: 'GET', path: from, query, repetition: repeat }
    return platform.send(prepare(platform.baseUrl, spec, { ...params, ...members }, {}), { signal })
  }
  const listPath = path.slice(0, -'/stream'.length)
  const message = (event: string, data: object, id?: string): EventSourceMessage => ({
    event,
    id,
    data: JSON.stringify(data),
  })
  type Listed = { items: { id: string }[] }
  if (listPath.endsWith('/activity')) {
    const { items } = await read<{ items: Activity[] }>(listPath, ['limit'], { limit: 1_000 })
    // Ids are numbers.
    return items
      .filter(({ id, createdAt }) => (last === undefined ? new Date(createdAt) >= startedAt : +id > +last))
      .toReversed()
      .map((item) => message(item.type, item, item.id))
  }
  if (listPath !== '/deployments/{id}/logs') {
    const query = ['level', 'search', 'functionId', 'from', 'limit']
    const { items } = await read<Listed>(listPath, query, { from: startedAt.toISOString(), limit: 1_000 })
    const event = listPath.endsWith('/requests') ? 'request' : 'log'
    // Ids are times (UUIDv7).
    return items
      .filter(({ id }) => last === undefined || id > last)
      .toReversed()
      .map((item) => message(event, item, item.id))
  }
  // Read first, so that no line before the end is missed.
  const { status, failureReason } = await read<Deployment>('/deployments/{id}', [], {})
  const { items } = await read<Listed>(listPath, ['limit'], { limit: 1_000 })
  const isOver = status === 'ACTIVE' || status === 'FAILED'
  return [
    message('status', { status, failureReason }),
    ...items.map((item) => message('log', item, item.id)),
    ...(isOver ? [message('end', {})] : []),
  ]
}

/** A piece of a streamed chat completion. */
export interface ChatCompletionChunk extends Pick<ChatCompletion, 'id'> {
  choices: { index: number; delta: { role?: string; content?: string | null }; finish_reason: string | null }[]
  [member: string]: unknown
}

/** What a streamed inference sends. */
export type ChunkOf<D> = D extends { url: '/ai/v1/chat/completions' } ? ChatCompletionChunk : Record<string, unknown>

/** The types of events that end a stream of the platform's other inference operations. */
const LAST_TYPE = /\.(completed|done|failed|incomplete)$/

/**
 * An inference, streamed: its events as they arrive. `stream: true` is set. Throws PlatformError for an error that is sent in the
 * middle, for a stream that is cut, and after 60 s of silence.
 */
export async function* stream<D extends { body: object }, R>(
  operation: Operation<D, R>,
  platform: Platform,
  params: Params<D>,
  options: CallOptions = {},
): AsyncGenerator<ChunkOf<D>, void, undefined> {
  const { spec } = operation
  const { body } = params as { body: object }
  const request = prepare(platform.baseUrl, spec, { ...params, body: { ...body, stream: true } }, options)
  const answer = await platform.send(request, { ...spec.repetition.options, ...options }, (each) =>
    Promise.resolve(each),
  )
  const failure = (message: string, more: object = {}, cause?: Error) =>
    new PlatformError(message, {
      status: 0,
      requestId: answer.headers.get('x-request-id') ?? undefined,
      operation: `${spec.method} ${spec.path}`,
      attempts: 1,
      ...more,
      cause,
    })
  let isWhole = false
  try {
    for await (const { data } of messagesOf(answer.body as ReadableStream<Uint8Array>, options.signal)) {
      if (data === '[DONE]') return
      const chunk = JSON.parse(data) as ChunkOf<D> & { error?: { message: string }; type?: string }
      if (chunk.error) {
        const { message, code, type } = chunk.error as { message: string; code?: string; type?: string }
        throw failure(message, { code, type })
      }
      isWhole = LAST_TYPE.test(chunk.type ?? '')
      yield chunk
    }
  } catch (error) {
    if (options.signal?.aborted || error instanceof PlatformError) throw error
    throw failure(`The stream was cut: ${(error as Error).message}`)
  }
  if (!isWhole) throw failure('The stream ended before its end')
}
