import { createSemaphore } from '@platform/service/semaphore'
import type { Logger } from '@platform/runtime/logger'

const AT_ONCE = 4
const WAITING_MAX = 1_000

/** Work that no answer waits for: how long it takes, and whether it fails, shows to nobody outside. */
export interface AfterAnswer {
  /** Starts the work, or lets it wait its turn. A failure is logged, as is work beyond the 1,000 that may wait. */
  run(what: string, work: () => Promise<void>): void
  /** Resolves once everything that was begun by then, and what that began, is over. */
  settled(): Promise<void>
}

/** Runs four pieces of work at a time. What has not run when the process is killed is lost; whoever asked asks again. */
export function createAfterAnswer(logger: Logger): AfterAnswer {
  const inTurn = createSemaphore({
    kind: 'after_answer',
    slots: AT_ONCE,
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
