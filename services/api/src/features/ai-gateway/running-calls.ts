import { ShuttingDown } from './abort-reasons.ts'

/** The calls that are under way in a process. A call goes on after its client has left, until it is settled. */
export interface RunningCalls {
  readonly size: number
  /** end: ends what the call waits for. Returns what tells that the call is over. */
  add(end: (reason: Error) => void): () => void
  /** Ends the calls that are under way after `ms`, since the process stops then. Returns what takes that back. */
  endAfter(ms: number): () => void
  /** Resolves once no call is under way. */
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
