import { createSemaphore } from '@platform/service/semaphore'
import type { Logger } from '@platform/runtime/logger'

const AT_ONCE = 4
const WAITING_MAX = 1_000

/** Work that runs after the answer, so neither its duration nor its failure is visible to the client. */
export interface AfterAnswer {
  /** Starts the work, or queues it. Logs failures, and work that is dropped because 1,000 are queued. */
  run(what: string, work: () => Promise<void>): void
  /** Resolves once all work that was started by then, and all that it started, is done. */
  settled(): Promise<void>
}

/** atOnce: how many pieces of work run at a time. Work still queued when the process is killed is lost; users then ask again. */
export function createAfterAnswer(logger: Logger, atOnce = AT_ONCE): AfterAnswer {
  const inTurn = createSemaphore({
    kind: 'after_answer',
    slots: atOnce,
    queueMax: WAITING_MAX,
    refuse: () => new Error('Too much is waiting already'),
  })
  const running = new Set<Promise<void>>()
  return {
    run(what, work) {
      const done = inTurn(work)
        .catch((error: unknown) => logger.error({ err: error, what }, 'work after an answer failed'))
        .finally(() => running.delete(done))
      running.add(done)
    },
    async settled() {
      while (running.size > 0) await Promise.all(running)
    },
  }
}
