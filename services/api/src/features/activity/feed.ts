import { ApiError } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import { and, asc, eq, gt } from 'drizzle-orm'
import { Gauge } from 'prom-client'
import type { StreamSlots } from '../streams/stream-slots.ts'
import { activities } from './table.ts'

/** Postgres tells those who listen on it the id of an application that has a new activity. */
export const ACTIVITY_CHANNEL = 'activity'
const BATCH_MAX = 200
/** What may wait for a reader. One that is behind is sent no more until it has read, and dropped at the second heartbeat. */
const UNREAD_BYTES_MAX = 65_536
const BEATS_STALLED_MAX = 2
const HEARTBEAT_MS = 15_000
/** Every fourth heartbeat, once a minute, the watcher's authority is checked (D86). */
const BEATS_BETWEEN_CHECKS = 4
/** A stream ends after 15 minutes; its client comes back with a fresh token and the last id (D86). */
const BEATS_MAX = 900_000 / HEARTBEAT_MS
const RETRY_MS = 2_000
/** A notification can be lost; nobody waits longer than this. */
const POLL_MS = 5_000

const open = new Gauge({ name: 'activity_streams', help: 'Activity streams that are open.' })
const utf8 = new TextEncoder()

/** The streams of what is done to applications. */
export interface ActivityFeed {
  /**
   * Opens a stream of what is done to an application, after activity number `after`. requireAuthority: called every minute;
   * an ApiError below 500 ends the stream. Throws TooManyStreams (A §6), and Unavailable once the process is stopping.
   */
  watch(
    applicationId: string,
    after: number,
    requireAuthority: () => Promise<unknown>,
  ): Promise<ReadableStream<Uint8Array>>
  /** Ends every stream, telling clients when to come back. */
  endStreams(): void
}

interface FeedDeps {
  db: Db
  logger: Logger
  streamSlots: StreamSlots
  notifications: Notifications
}

interface Watcher {
  applicationId: string
  /** The number of the last activity that was sent. */
  last: number
  hasRoom(): boolean
  send(text: string): void
  end(): void
}

type Row = typeof activities.$inferSelect

const eventOf = (row: Row): string => {
  const { number, type, applicationId, actor, subject, createdAt } = row
  const data = { id: String(number), type, applicationId, actor, subject, createdAt: createdAt.toISOString() }
  return `id: ${number}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}

/**
 * The activity feed of this process: one connection that hears of new activities, one query for all who watch an
 * application. Any number of processes serve streams side by side, because each reads what the database holds.
 */
export function openActivityFeed(
  { db, logger, streamSlots, notifications }: FeedDeps,
  heartbeatMs = HEARTBEAT_MS,
): ActivityFeed & { close(): void } {
  const watchers = new Map<string, Set<Watcher>>()
  /** Applications that are being read; true when there was news meanwhile. */
  const reading = new Map<string, boolean>()
  let poll: NodeJS.Timeout | undefined

  async function readOnce(applicationId: string): Promise<boolean> {
    const of = [...(watchers.get(applicationId) ?? [])].filter((watcher) => watcher.hasRoom())
    if (of.length === 0) return false
    const after = Math.min(...of.map(({ last }) => last))
    const rows = await db
      .select()
      .from(activities)
      .where(and(eq(activities.applicationId, applicationId), gt(activities.number, after)))
      .orderBy(asc(activities.number))
      .limit(BATCH_MAX)
    for (const row of rows) {
      const text = eventOf(row)
      for (const watcher of of) {
        if (row.number <= watcher.last || !watcher.hasRoom()) continue
        watcher.last = row.number
        watcher.send(text)
      }
    }
    return rows.length === BATCH_MAX
  }

  async function read(applicationId: string): Promise<void> {
    if (reading.has(applicationId)) {
      reading.set(applicationId, true)
      return
    }
    try {
      do reading.set(applicationId, false)
      while ((await readOnce(applicationId)) || reading.get(applicationId))
    } catch (error) {
      logger.warn({ err: error }, 'activities could not be read; tried again soon')
    } finally {
      reading.delete(applicationId)
    }
  }
  const readAll = () => {
    for (const applicationId of watchers.keys()) void read(applicationId)
  }

  function add(watcher: Watcher): void {
    const of = watchers.get(watcher.applicationId) ?? new Set()
    watchers.set(watcher.applicationId, of.add(watcher))
    open.inc()
    poll ??= setInterval(readAll, POLL_MS).unref()
  }
  function remove(watcher: Watcher): void {
    const of = watchers.get(watcher.applicationId)
    if (!of?.delete(watcher)) return
    open.dec()
    if (of.size === 0) watchers.delete(watcher.applicationId)
  }

  notifications.listen(ACTIVITY_CHANNEL, {
    onMessage: (applicationId) => void (watchers.has(applicationId) && read(applicationId)),
    onListening: readAll,
  })

  return {
    async watch(applicationId, after, requireAuthority) {
      const releaseSlot = await streamSlots.take(`activity:${applicationId}`)
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
      const watcher: Watcher = {
        applicationId,
        last: after,
        hasRoom: () => isOpen && (controller.desiredSize ?? 0) > 0,
        send(text) {
          if (isOpen) controller.enqueue(utf8.encode(text))
        },
        end() {
          if (!isOpen) return
          leave()
          controller.enqueue(utf8.encode(`retry: ${RETRY_MS}\n\n`))
          controller.close()
        },
      }
      const stream = new ReadableStream<Uint8Array>(
        { start: (given) => void (controller = given), pull: () => read(applicationId), cancel: leave },
        { highWaterMark: UNREAD_BYTES_MAX, size: ({ byteLength }) => byteLength },
      )
      add(watcher)
      const heart = setInterval(() => {
        beats++
        stalled = watcher.hasRoom() ? 0 : stalled + 1
        if (stalled >= BEATS_STALLED_MAX) {
          leave()
          controller.error(new Error('The reader is too slow'))
        } else if (beats >= BEATS_MAX) watcher.end()
        else if (stalled === 0) watcher.send(': \n\n')
        if (beats % BEATS_BETWEEN_CHECKS === 0)
          requireAuthority().catch((error: unknown) => {
            if (error instanceof ApiError && error.status < 500) watcher.end()
          })
      }, heartbeatMs).unref()
      watcher.send(`retry: ${RETRY_MS}\n\n`)
      return stream
    },
    endStreams() {
      for (const of of watchers.values()) for (const watcher of of) watcher.end()
    },
    close() {
      clearInterval(poll)
      this.endStreams()
    },
  }
}
