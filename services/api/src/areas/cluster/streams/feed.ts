import { ApiError } from '@platform/errors/api-error'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import { Gauge } from 'prom-client'
import type { StreamSlots } from './stream-slots.ts'

const BATCH_MAX = 200
/**
 * Unread bytes per reader. A reader that exceeds this gets nothing more until it reads, and is dropped at the second heartbeat.
 */
const UNREAD_BYTES_MAX = 65_536
const BEATS_STALLED_MAX = 2
const HEARTBEAT_MS = 15_000
/** The watcher's authority is checked at every fourth heartbeat, once a minute (D86). */
const BEATS_BETWEEN_CHECKS = 4
/** A stream ends after 15 minutes; its client reconnects with a fresh token and the last id (D86). */
const BEATS_MAX = 900_000 / HEARTBEAT_MS
const RETRY_MS = 2_000
/** Notifications can be lost; no event is delayed longer than this. */
const POLL_MS = 5_000

const open = new Gauge({
  name: 'event_streams',
  help: 'Streams of server-sent events that are open.',
  labelNames: ['feed'],
})
const utf8 = new TextEncoder()

/** Formats one server-sent event. data: serialized as one line of JSON. */
export const eventText = (event: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

/** An event with its position. text: from `eventText`. */
export interface StreamedEvent<P> {
  place: P
  text: string
}

/** The database source of a feed; P is a position among the events of a resource. */
export interface FeedSource<P, E extends StreamedEvent<P> = StreamedEvent<P>> {
  /** Such as `activity`: labels the metrics, and together with the resource's id keys the cap on streams (D86). */
  name: string
  /** The channel on which Postgres announces the ids of resources with news. */
  channel: string
  /** Events after a position, in order. */
  read(resourceId: string, after: P, limit: number): Promise<readonly E[]>
  isAfter(a: P, b: P): boolean
  /**
   * The resource's current state: sent when a stream opens and whenever its text changes, ahead of the events that happened in
   * it. Once isOver, the streams of the resource receive the remaining events and `end`, and are closed. Absent: the feed has no
   * state and no end.
   */
  readState?(resourceId: string): Promise<{ text: string; isOver: boolean }>
}

/** Options of a single stream. */
interface StreamOptions<E> {
  /** An event to send first. */
  greeting?: string | undefined
  /** The key under which the cap counts this stream; by default the resource. */
  slotsOf?: string
  /** False for events that this stream omits; absent: it has all of them. */
  passes?: (event: E) => boolean
}

export interface Feed<P, E extends StreamedEvent<P> = StreamedEvent<P>> {
  /**
   * Opens a stream of a resource's events after a position. requireAuthority: called every minute; an ApiError below 500 ends the
   * stream. Throws TooManyStreams (A §6), and Unavailable once the process is stopping.
   */
  watch(
    resourceId: string,
    after: P,
    requireAuthority: () => Promise<unknown>,
    options?: StreamOptions<E>,
  ): Promise<ReadableStream<Uint8Array>>
  /** Ends every stream, telling clients when to come back. */
  endStreams(): void
}

export interface FeedDeps {
  logger: Logger
  streamSlots: StreamSlots
  notifications: Notifications
}

interface Watcher<P, E> {
  resourceId: string
  passes(event: E): boolean
  /** The position of the last event sent. */
  last: P
  /** The last state sent. */
  state: string
  /** True if that state is final. */
  isOver: boolean
  hasRoom(): boolean
  send(text: string): void
  end(lastWords: string): void
}

/**
 * Opens a feed in this process: one connection for notifications, one query for all watchers of a resource. Any number of
 * processes can serve streams side by side, since each reads from the database.
 */
export function openFeed<P, E extends StreamedEvent<P> = StreamedEvent<P>>(
  { logger, streamSlots, notifications }: FeedDeps,
  source: FeedSource<P, E>,
  heartbeatMs = HEARTBEAT_MS,
): Feed<P, E> & { close(): void } {
  const watchers = new Map<string, Set<Watcher<P, E>>>()
  /** Resources being read; true if news arrived meanwhile. */
  const reading = new Map<string, boolean>()
  let poll: NodeJS.Timeout | undefined
  const retry = `retry: ${RETRY_MS}\n\n`

  async function readOnce(resourceId: string): Promise<boolean> {
    const of = [...(watchers.get(resourceId) ?? [])].filter((watcher) => watcher.hasRoom())
    const [first] = of
    if (!first) return false
    // If a resource was over before, the events read from here on are the last ones for these watchers.
    const ending = of.filter(({ isOver }) => isOver)
    const after = of.reduce((earliest, { last }) => (source.isAfter(earliest, last) ? last : earliest), first.last)
    const events = await source.read(resourceId, after, BATCH_MAX)
    // Read after the events and sent before them, so that no event arrives ahead of the state that it happened in.
    const state = await source.readState?.(resourceId)
    for (const watcher of of) {
      if (!state || !watcher.hasRoom()) continue
      if (watcher.state !== state.text) watcher.send(state.text)
      watcher.state = state.text
      watcher.isOver = state.isOver
    }
    for (const event of events) {
      for (const watcher of of) {
        if (!source.isAfter(event.place, watcher.last) || !watcher.hasRoom()) continue
        watcher.last = event.place
        if (watcher.passes(event)) watcher.send(event.text)
      }
    }
    const isWhole = events.length < BATCH_MAX
    const end = events.at(-1)
    if (isWhole)
      for (const watcher of ending)
        if (!end || !source.isAfter(end.place, watcher.last)) watcher.end(eventText('end', {}))
    return !isWhole || of.some((watcher) => watcher.isOver && !ending.includes(watcher))
  }

  async function read(resourceId: string): Promise<void> {
    if (reading.has(resourceId)) {
      reading.set(resourceId, true)
      return
    }
    try {
      do reading.set(resourceId, false)
      while ((await readOnce(resourceId)) || reading.get(resourceId))
    } catch (error) {
      logger.warn({ err: error, feed: source.name }, 'events could not be read; tried again soon')
    } finally {
      reading.delete(resourceId)
    }
  }
  const readAll = () => {
    for (const resourceId of watchers.keys()) void read(resourceId)
  }

  function add(watcher: Watcher<P, E>): void {
    const of = watchers.get(watcher.resourceId) ?? new Set()
    watchers.set(watcher.resourceId, of.add(watcher))
    open.inc({ feed: source.name })
    poll ??= setInterval(readAll, POLL_MS).unref()
  }
  function remove(watcher: Watcher<P, E>): void {
    const of = watchers.get(watcher.resourceId)
    if (!of?.delete(watcher)) return
    open.dec({ feed: source.name })
    if (of.size === 0) watchers.delete(watcher.resourceId)
  }

  notifications.listen(source.channel, {
    onMessage: (resourceId) => void (watchers.has(resourceId) && read(resourceId)),
    onListening: readAll,
  })

  return {
    async watch(
      resourceId,
      after,
      requireAuthority,
      { greeting = '', slotsOf = resourceId, passes = () => true } = {},
    ) {
      const releaseSlot = await streamSlots.take(`${source.name}:${slotsOf}`)
      let controller!: ReadableStreamDefaultController<Uint8Array>
      let beats = 0
      let stalled = 0
      let isOpen = true
      const leave = () => {
        isOpen = false
        clearInterval(heart)
        remove(watcher)
        releaseSlot()
      }
      const watcher: Watcher<P, E> = {
        resourceId,
        passes,
        last: after,
        state: '',
        isOver: false,
        hasRoom: () => isOpen && (controller.desiredSize ?? 0) > 0,
        send(text) {
          if (isOpen) controller.enqueue(utf8.encode(text))
        },
        end(lastWords) {
          if (!isOpen) return
          leave()
          controller.enqueue(utf8.encode(lastWords))
          controller.close()
        },
      }
      const stream = new ReadableStream<Uint8Array>(
        {
          start: (streamController) => void (controller = streamController),
          pull: () => read(resourceId),
          cancel: leave,
        },
        { highWaterMark: UNREAD_BYTES_MAX, size: ({ byteLength }) => byteLength },
      )
      add(watcher)
      const heart = setInterval(() => {
        beats++
        stalled = watcher.hasRoom() ? 0 : stalled + 1
        if (stalled >= BEATS_STALLED_MAX) {
          leave()
          controller.error(new Error('The reader is too slow'))
        } else if (beats >= BEATS_MAX) watcher.end(retry)
        else if (stalled === 0) watcher.send(': \n\n')
        if (beats % BEATS_BETWEEN_CHECKS === 0)
          requireAuthority().catch((error: unknown) => {
            if (error instanceof ApiError && error.status < 500) watcher.end(retry)
          })
      }, heartbeatMs).unref()
      watcher.send(retry + greeting)
      return stream
    },
    endStreams() {
      for (const of of watchers.values()) for (const watcher of of) watcher.end(retry)
    },
    close() {
      clearInterval(poll)
      this.endStreams()
    },
  }
}
