import type { Counter, Gauge } from 'prom-client'
import { isUnavailable } from './database.ts'
import type { Logger } from './logger.ts'

export interface LogBatchesOptions<Item> {
  /** What the items are, as a plural for the log. */
  name: string
  /** How long the first of a batch waits, in milliseconds. */
  batchMs: number
  batchMax: number
  logger: Logger
  waitingGauge: Gauge
  dropped: Counter
  /** Stores a batch as a whole. Rejects where the database is away (`isUnavailable`) or refuses it. */
  store(items: readonly Item[]): Promise<void>
  /** Told of each batch that waits no more, stored or refused. */
  onLeft?(items: readonly Item[]): void
}

export interface LogBatches<Item> {
  /** How many are not stored yet. */
  readonly length: number
  readonly isClosed: boolean
  /** Returns at once. Nothing is added once they are closed. */
  add(item: Item): void
  /** Resolves once everything that was added so far is stored, was given up, or waits for a database that is away. */
  flush(): Promise<void>
  /** Stores what waits, and takes no more. */
  close(): Promise<void>
}

const RETRY_MS = 1_000

/**
 * Collects items and stores them in batches, one after the other. While the database is away they wait; whatever it refuses is dropped,
 * counted and logged without its content. How many wait is up to the caller.
 */
export function openLogBatches<Item>(options: LogBatchesOptions<Item>): LogBatches<Item> {
  const { name, batchMs, batchMax, logger, waitingGauge, dropped, store, onLeft } = options
  let waiting: Item[] = []
  /** How many of those that wait are to be stored now: those that came later fill the next batch first. */
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
    // In the tick that saw the end, so that nobody waits for a flush that looks no more.
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
