import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import type { Logger } from './logger.ts'

const AGAIN_MS = 1_000
const CLOSE_MS = 1_000
/** How often the connection is tried, for subscribers that want to know when it is gone: one that hangs breaks much later. */
const HEARTBEAT_MS = 5_000

interface Subscriber {
  onMessage: (payload: string) => void
  /** Called each time that listening begins, which is when to look for what was missed. */
  onListening: () => void
  /** Called when nothing is heard any more: at once when the connection breaks, else after 5 to 10 s. May repeat. */
  onLost?: () => void
}

/** What other processes say through Postgres (NOTIFY). */
export interface Notifications {
  /** Hears what is sent to a channel from now on. Each channel has one subscriber. */
  listen(channel: string, subscriber: Subscriber): void
  close(): Promise<void>
}

/**
 * Listens to channels of Postgres on one connection of its own, which opens with the first channel, and again whenever
 * it breaks. What is sent in between is lost: a notification says that there is something to read, and must not be the
 * only one to say so.
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
    // The default backs off to many seconds, for which a database that came back would not be heard.
    backoff: () => 0.1 + Math.random() * 0.2,
    max_lifetime: null,
    onnotice: () => {},
    connection: { application_name: 'notifications' },
    // Options of the driver that its types leave out; its own listen() gives up when it cannot reconnect at once.
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
   * Sends word to itself again and again. Nothing less tells whether changes are heard: a connection may hang, and a pooler in
   * transaction mode takes LISTEN and never passes anything on.
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
      // postgres.js leaves a connection open that was being made when it was told to end; one that hangs is left to it.
      await Promise.race([Promise.all(starting), sleep(CLOSE_MS, undefined, { ref: false })])
      await sql.end({ timeout: 1 })
    },
  }
}
