import type { Counter, Gauge } from 'prom-client'
import { isUnavailable } from './database.ts'
import type { Logger } from './logger.ts'

export interface LogBatchesOptions<Item> {
  /** Plural noun for the items, for the log. */
  name: string
  /** How long the first item of a batch waits, in milliseconds. */
  batchMs: number
  batchMax: number
  logger: Logger
  waitingGauge: Gauge
  dropped: Counter
  /** Stores a whole batch. Rejects if the database is unavailable (`isUnavailable`) or rejects the batch. */
  store(items: readonly Item[]): Promise<void>
  /** Called with each batch that leaves the queue, stored or dropped. */
  onLeft?(items: readonly Item[]): void
}

export interface LogBatches<Item> {
  /** Number of items not stored yet. */
  readonly length: number
  readonly isClosed: boolean
  /** Returns at once. Items added after `close` are ignored. */
  add(item: Item): void
  /** Resolves once everything added so far is stored, dropped, or waiting for an unavailable database. */
  flush(): Promise<void>
  /** Stores what is queued, and accepts no more. */
  close(): Promise<void>
}

const RETRY_MS = 1_000

/**
 * Collects items and stores them in batches, one after the other. While the database is unavailable they wait; items it rejects
 * are dropped, counted and logged without their content. The caller limits how many wait.
 */
export function openLogBatches<Item>(options: LogBatchesOptions<Item>): LogBatches<Item> {
  const { name, batchMs, batchMax, logger, waitingGauge, dropped, store, onLeft } = options
  let waiting: Item[] = []
  /** Number of waiting items to store now: later ones fill up the next batch first. */
  let due = 0
  let timer: NodeJS.Timeout | undefined
  let flushing: Promise<void> | undefined
  let isClosed = false

  const later = (ms: number) => (timer ??= setTimeout(() => void flush(), ms).unref())

  async function storeNext(): Promise<boolean> {
    const items = waiting.slice(0, batchMax)
    try {
      await store(items)
    } catch (error) {
      if (isUnavailable(error) && !isClosed) {
        logger.warn({ err: error, waiting: waiting.length }, `${name} wait for the database`)
        later(RETRY_MS)
        return false
      }
      dropped.inc(items.length)
      logger.error({ err: error, count: items.length }, `${name} could not be stored`)
    }
    waiting = waiting.slice(items.length)
    due -= items.length
    onLeft?.(items)
    waitingGauge.set(waiting.length)
    return true
  }

  async function storeDue(): Promise<void> {
    while (due > 0 && (await storeNext()));
    // In the same tick that found the queue empty, so that nobody waits for a flush that has stopped looking.
    flushing = undefined
  }

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    due = waiting.length
    if (due > 0) flushing ??= storeDue()
    return flushing ?? Promise.resolve()
  }

  return {
    get length() {
      return waiting.length
    },
    get isClosed() {
      return isClosed
    },
    add(item) {
      if (isClosed) return
      waiting.push(item)
      waitingGauge.set(waiting.length)
      if (waiting.length >= batchMax) void flush()
      else later(batchMs)
    },
    flush,
    async close() {
      isClosed = true
      await flush()
    },
  }
}
