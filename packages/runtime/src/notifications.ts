import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import type { Logger } from './logger.ts'

const AGAIN_MS = 1_000
const CLOSE_MS = 1_000
/** Heartbeat interval, for subscribers with `onLost`: a connection that hangs breaks much later. */
const HEARTBEAT_MS = 5_000

interface Subscriber {
  onMessage: (payload: string) => void
  /** Called whenever listening (re)starts, which is when to check for missed changes. */
  onListening: () => void
  /** Called when nothing can be received any more: at once if the connection breaks, else after 5 to 10 s. May repeat. */
  onLost?: () => void
}

/** Messages from other processes through Postgres (NOTIFY). */
export interface Notifications {
  /** Receives what is sent to a channel from now on. Each channel has one subscriber. */
  listen(channel: string, subscriber: Subscriber): void
  close(): Promise<void>
}

/**
 * Listens to Postgres channels on one dedicated connection, which opens with the first channel, and again whenever it breaks.
 * Notifications sent in between are lost: a notification says that there is something to read, and must not be the only way to
 * find out.
 */
export function openNotifications(url: string, logger: Logger): Notifications {
  const subscribers = new Map<string, Subscriber>()
  const starting = new Set<Promise<void>>()
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let heart: NodeJS.Timeout | undefined
  const options = {
    max: 1,
    fetch_types: false,
    idle_timeout: 0,
    connect_timeout: 5,
    // The default backs off to many seconds, during which we would not listen to a database that is back.
    backoff: () => 0.1 + Math.random() * 0.2,
    max_lifetime: null,
    onnotice: () => {},
    connection: { application_name: 'notifications' },
    // Options of the driver missing from its types; its own listen() gives up if it cannot reconnect at once.
    onnotify: (channel: string, payload: string) => subscribers.get(channel)?.onMessage(payload),
    onclose: () => {
      lose()
      startAllAgain()
    },
  }
  const sql = postgres(url, options)

  function lose(): void {
    for (const { onLost } of subscribers.values()) onLost?.()
  }
  /**
   * Notifies itself at intervals. Nothing less proves that changes arrive: a connection may hang, and a pooler in transaction mode
   * accepts LISTEN and never forwards anything.
   */
  function startHeart(): void {
    if (heart) return
    const channel = `heartbeat_${randomUUID().replaceAll('-', '')}`
    let isHeard = true
    let isLost = false
    let isSending = false
    const own: Subscriber = {
      onMessage() {
        isHeard = true
        if (isLost) startAllAgain()
        isLost = false
      },
      onListening: () => void (isHeard = true),
    }
    subscribers.set(channel, own)
    start(channel, own)
    async function beat(): Promise<void> {
      isSending = true
      await sql.unsafe(`select pg_notify('${channel}', '')`).catch(() => {}) // not heard either
      isSending = false
    }
    heart = setInterval(() => {
      if (!isHeard) {
        isLost = true
        lose()
      }
      isHeard = false
      if (!isSending) void beat()
    }, HEARTBEAT_MS).unref()
  }

  function startAllAgain(): void {
    if (isClosed) return
    clearTimeout(timer)
    timer = setTimeout(() => {
      for (const [channel, subscriber] of subscribers) start(channel, subscriber)
    }, AGAIN_MS).unref()
  }
  async function tryToStart(channel: string, { onListening }: Subscriber): Promise<void> {
    try {
      await sql.unsafe(`listen "${channel}"`)
    } catch (error) {
      if (!isClosed) logger.warn({ err: error, channel }, 'listening failed')
      startAllAgain()
      return
    }
    if (!isClosed) onListening()
  }
  function start(channel: string, subscriber: Subscriber): void {
    const started = tryToStart(channel, subscriber)
    starting.add(started)
    void started.finally(() => starting.delete(started))
  }

  return {
    listen(channel, subscriber) {
      subscribers.set(channel, subscriber)
      if (subscriber.onLost) startHeart()
      start(channel, subscriber)
    },
    async close() {
      isClosed = true
      clearTimeout(timer)
      clearInterval(heart)
      // postgres.js leaves a connection open that was still connecting when it was told to end; one that hangs is abandoned.
      await Promise.race([Promise.all(starting), sleep(CLOSE_MS, undefined, { ref: false })])
      await sql.end({ timeout: 1 })
    },
  }
}
