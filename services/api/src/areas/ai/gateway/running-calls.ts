import { ShuttingDown } from './abort-reasons.ts'

/** The calls in progress in a process. A call continues after its client has left, until it is settled. */
export interface RunningCalls {
  readonly size: number
  /** end: aborts the call. Returns a function to report that the call is over. */
  add(end: (reason: Error) => void): () => void
  /** Aborts the calls still in progress after `ms`, since the process stops then. Returns a function to cancel that. */
  endAfter(ms: number): () => void
  /** Resolves once no call is in progress. */
  over(): Promise<void>
}

export function createRunningCalls(): RunningCalls {
  const running = new Set<{ end: (reason: Error) => void; isOver: Promise<void> }>()
  return {
    get size() {
      return running.size
    },
    add(end) {
      const { promise: isOver, resolve } = Promise.withResolvers<void>()
      const call = { end, isOver }
      running.add(call)
      return () => {
        running.delete(call)
        resolve()
      }
    },
    endAfter(ms) {
      const timer = setTimeout(() => {
        for (const { end } of running) end(new ShuttingDown())
      }, ms)
      return () => clearTimeout(timer)
    },
    async over() {
      while (running.size > 0) await Promise.all([...running].map(({ isOver }) => isOver))
    },
  }
}
