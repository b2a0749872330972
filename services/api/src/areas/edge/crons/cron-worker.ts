import { minuteOf } from '@platform/build-output/cron-schedule'
import type { EdgeDeps } from '../deps.ts'
import { fillSlots } from '../../cluster/queues/fill-slots.ts'
import { findDueCrons } from './due-crons.ts'
import { createDueRun } from './runs.ts'

/** Runs that one process waits for at once. */
const SLOTS = 100
const LOOK_MS = 1_000

type WorkerDeps = Pick<EdgeDeps, 'db' | 'now' | 'logger' | 'cronQueue' | 'crons'>

/** Queues the crons that are due in a minute. Safe to repeat, and in several processes at once: each is queued once. */
export async function queueDueCrons(deps: Pick<EdgeDeps, 'db' | 'logger' | 'cronQueue'>, minute: Date): Promise<void> {
  await deps.cronQueue.enqueue(await findDueCrons(deps, minute))
}

/**
 * Takes a due cron and hands its run to an edge. Returns a promise that resolves when the run ends, or false if no cron waits.
 */
export async function takeDueCron(
  { now, cronQueue, crons }: Omit<WorkerDeps, 'db' | 'logger'>,
  signal: AbortSignal,
): Promise<{ end: Promise<void> } | false> {
  const taken = await cronQueue.take(async (tx, due) => ({ runId: await createDueRun(tx, now(), due) }))
  if (!taken) return false
  return { end: taken.runId === undefined ? Promise.resolve() : crons.dispatch(taken.runId, signal) }
}

/**
 * Queues crons at the start of each minute and hands due ones to edges, a hundred at a time. Minutes in which no worker runs are
 * skipped.
 */
export function startCronWorker(deps: WorkerDeps): {
  /** Takes no more crons, and leaves runs to their edges. Safe to repeat. */
  stop(): Promise<void>
} {
  const { logger, now, cronQueue } = deps
  const stopping = new AbortController()
  const underWay = new Set<Promise<void>>()
  let queuedMinute = 0
  let looking: Promise<void> | undefined

  const { wake, stop } = fillSlots({
    hasSlot: () => underWay.size < SLOTS,
    async takeNext() {
      const taken = await takeDueCron(deps, stopping.signal)
      if (!taken) return false
      const end = taken.end
        .catch((error: unknown) => logger.warn({ err: error }, 'the run of a cron was not handed to an edge'))
        .finally(() => {
          underWay.delete(end)
          wake()
        })
      underWay.add(end)
      return true
    },
    onError: (error) => logger.warn({ err: error }, 'the queue of crons cannot be read'),
  })

  async function look(): Promise<void> {
    const minute = minuteOf(now())
    if (minute.getTime() > queuedMinute) {
      await queueDueCrons(deps, minute)
      queuedMinute = minute.getTime()
    }
    wake()
  }
  const lookOnce = (): void => {
    looking ??= look()
      .catch((error: unknown) => logger.warn({ err: error }, 'crons that are due were not queued'))
      .finally(() => (looking = undefined))
  }

  cronQueue.listen(wake)
  lookOnce()
  const timer = setInterval(lookOnce, LOOK_MS).unref()
  return {
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await looking
      await stop()
      await Promise.all(underWay)
    },
  }
}
