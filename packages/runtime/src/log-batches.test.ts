import { Counter, Gauge } from 'prom-client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openLogBatches } from './log-batches.ts'
import { createLogger } from './logger.ts'

const BATCH_MS = 200

interface Asked {
  items: readonly number[]
  settle: PromiseWithResolvers<void>
}
let lookups: Asked[]
let left: number[]
const dropped = new Counter({ name: 'test_dropped_total', help: 'Dropped.', registers: [] })

const open = () => {
  lookups = []
  left = []
  dropped.reset()
  return openLogBatches<number>({
    name: 'numbers',
    batchMs: BATCH_MS,
    batchMax: 3,
    logger: createLogger('test', 'silent'),
    waitingGauge: new Gauge({ name: 'test_waiting', help: 'Waiting.', registers: [] }),
    dropped,
    store: (items) => {
      const settle = Promise.withResolvers<void>()
      lookups.push({ items, settle })
      return settle.promise
    },
    onLeft: (items) => left.push(...items),
  })
}
const stored = () => lookups.map(({ items }) => items)
/** Answers the latest lookup, and lets its continuations run. */
const answer = async (error?: unknown): Promise<void> => {
  if (error === undefined) lookups.at(-1)?.settle.resolve()
  else lookups.at(-1)?.settle.reject(error)
  await vi.advanceTimersByTimeAsync(0)
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('what comes while a batch is stored waits for a batch of its own, so that a trickle is not stored one by one', async () => {
  const batches = open()
  batches.add(1)
  await vi.advanceTimersByTimeAsync(BATCH_MS)
  expect(stored()).toEqual([[1]])
  batches.add(2)
  await answer()
  batches.add(3)
  await vi.advanceTimersByTimeAsync(BATCH_MS - 1)
  expect(stored()).toEqual([[1]])
  await vi.advanceTimersByTimeAsync(1)
  expect(stored()).toEqual([[1], [2, 3]])
})

test('a batch that is full is stored at once, and flush waits for all that was added before it', async () => {
  const batches = open()
  for (let n = 1; n <= 4; n++) batches.add(n)
  expect(stored()).toEqual([[1, 2, 3]])
  let isFlushed = false
  const flushed = batches.flush().then(() => (isFlushed = true))
  await answer()
  expect(stored()).toEqual([[1, 2, 3], [4]])
  expect(isFlushed).toBe(false)
  await answer()
  await flushed
  expect(left).toEqual([1, 2, 3, 4])
  expect(batches.length).toBe(0)
})

test('what the database refuses is dropped and counted, and what waits for it is stored when it is back', async () => {
  const batches = open()
  batches.add(1)
  await vi.advanceTimersByTimeAsync(BATCH_MS)
  await answer(new Error('refused'))
  expect((await dropped.get()).values[0]?.value).toBe(1)
  batches.add(2)
  await vi.advanceTimersByTimeAsync(BATCH_MS)
  await answer(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }))
  expect(batches.length).toBe(1)
  batches.add(3)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(stored()).toEqual([[1], [2], [2, 3]])
  await answer()
  expect(left).toEqual([1, 2, 3])
  expect((await dropped.get()).values[0]?.value).toBe(1)
})

test('closing stores what waits, gives up where the database is away, and takes no more', async () => {
  const batches = open()
  batches.add(1)
  const closed = batches.close()
  batches.add(2)
  await answer(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }))
  await closed
  expect(stored()).toEqual([[1]])
  expect(batches.length).toBe(0)
})
