import { workUnderWay } from './metrics.ts'

interface SemaphoreOptions {
  /** The kind of work, for the metrics. */
  kind: string
  slots: number
  queueMax: number
  refuse: () => Error
}

interface Semaphore {
  /** signal: if it aborts before the work begins, the work is skipped and the abort reason thrown. */
  <T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
  /** Throws `refuse()` if the queue is full, so that callers can give up before preparing work. */
  requireRoom(): void
}

/** Lets `slots` pieces of work run at once and `queueMax` more wait; beyond that it throws `refuse()`. */
export function createSemaphore({ kind, slots, queueMax, refuse }: SemaphoreOptions): Semaphore {
  let running = 0
  const queue: (() => void)[] = []
  const [seenRunning, seenWaiting] = [workUnderWay.labels(kind, 'running'), workUnderWay.labels(kind, 'waiting')]
  const requireRoom = (): void => {
    if (running >= slots && queue.length >= queueMax) throw refuse()
  }
  const waitForTurn = (signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const begin = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        queue.splice(queue.indexOf(begin), 1)
        reject(signal?.reason as Error)
      }
      queue.push(begin)
      signal?.addEventListener('abort', leave, { once: true })
    })
  const inTurn = async <T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    signal?.throwIfAborted()
    requireRoom()
    if (running >= slots) {
      seenWaiting.inc()
      await waitForTurn(signal).finally(() => seenWaiting.dec())
    } else running++
    seenRunning.inc()
    try {
      return await work()
    } finally {
      seenRunning.dec()
      const next = queue.shift()
      if (next) next() // the slot is handed over, so `running` stays
      else running--
    }
  }
  return Object.assign(inTurn, { requireRoom })
}
