import { workUnderWay } from './metrics.ts'

interface SemaphoreOptions {
  /** What kind of work it is, for the metrics. */
  kind: string
  slots: number
  queueMax: number
  refuse: () => Error
}

interface Semaphore {
  <T>(work: () => Promise<T>): Promise<T>
  /** Throws what `refuse` makes if work would be refused now. Call it before work that takes preparation. */
  requireRoom(): void
}

/** Lets `slots` pieces of work run at once and `queueMax` more wait their turn; beyond that `refuse` is thrown. */
export function createSemaphore({ kind, slots, queueMax, refuse }: SemaphoreOptions): Semaphore {
  let running = 0
  const queue: (() => void)[] = []
  const [seenRunning, seenWaiting] = [workUnderWay.labels(kind, 'running'), workUnderWay.labels(kind, 'waiting')]
  const requireRoom = (): void => {
    if (running >= slots && queue.length >= queueMax) throw refuse()
  }
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    requireRoom()
    if (running >= slots) {
      seenWaiting.inc()
      await new Promise<void>((resolve) => queue.push(resolve))
      seenWaiting.dec()
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
