import { workUnderWay } from './metrics.ts'

interface SemaphoreOptions {
  /** What kind of work it is, for the metrics. */
  kind: string
  slots: number
  /** How many pieces of ordinary work may wait. */
  queueMax: number
  /** How many more may wait in the lane that goes first; none unless said. */
  firstQueueMax?: number
  refuse: () => Error
}

/** A queue for the slots. */
interface Lane {
  /** signal: aborted before its turn, the work is not begun, and the reason is thrown. */
  <T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
  /** Throws what `refuse` makes if work would be refused now. Call it before work that takes preparation. */
  requireRoom(): void
}

interface Semaphore extends Lane {
  /** The lane whose work gets every slot that becomes free before the work of the other. Both use the same slots. */
  first: Lane
}

/** Lets `slots` pieces of work run at once and `queueMax` more wait their turn; beyond that `refuse` is thrown. */
export function createSemaphore({ kind, slots, queueMax, firstQueueMax = 0, refuse }: SemaphoreOptions): Semaphore {
  let running = 0
  const queues: { first: (() => void)[]; ordinary: (() => void)[] } = { first: [], ordinary: [] }
  const [seenRunning, seenWaiting] = [workUnderWay.labels(kind, 'running'), workUnderWay.labels(kind, 'waiting')]

  function openLane(queue: (() => void)[], waitingMax: number): Lane {
    const requireRoom = (): void => {
      if (running >= slots && queue.length >= waitingMax) throw refuse()
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
        const next = queues.first.shift() ?? queues.ordinary.shift()
        if (next) next() // the slot is handed over, so `running` stays
        else running--
      }
    }
    return Object.assign(inTurn, { requireRoom })
  }

  return Object.assign(openLane(queues.ordinary, queueMax), { first: openLane(queues.first, firstQueueMax) })
}
