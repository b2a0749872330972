import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import type { Boss } from '../queues/boss.ts'

/** Made by a migration, with its options. */
const QUEUE = 'crons'
/** Says that there are jobs. The payload is empty. */
const CHANNEL = 'crons'

/** A cron that is due, once for its environment. */
export interface DueCron {
  cronId: string
  slot: string
  /** The beginning of the minute. */
  dueAt: Date
}

type Transaction = Parameters<Parameters<Db['transaction']>[0]>[0]

/** Crons that are due and wait for a worker. */
export interface CronQueue {
  /** Safe to repeat, and in several processes at once: what waits, waits once. */
  enqueue(due: readonly DueCron[]): Promise<void>
  /**
   * Takes the job that has waited longest, for this caller alone, in the transaction in which `work` decides what becomes of it: if that
   * fails, or its process dies, the job is there for the next. Returns what `work` returned; false if no job waits.
   */
  take<T>(work: (tx: Transaction, due: DueCron) => Promise<T>): Promise<T | false>
  /** Calls back whenever there may be something to take, from now on. One listener. */
  listen(onWaiting: () => void): void
  /** Removes the jobs that were taken long ago. Safe to repeat, and in several processes at once. */
  discardTaken(): Promise<void>
}

interface JobData {
  cronId: string
  slot: string
  dueAt: string
}

/** Opens the queue of crons. */
export function openCronQueue({
  db,
  pgBoss,
  notifications,
}: {
  db: Db
  pgBoss: Boss
  notifications: Notifications
}): CronQueue {
  return {
    async enqueue(due) {
      if (due.length === 0) return
      const { boss } = await pgBoss.start()
      const jobs = due.map(({ cronId, slot, dueAt }) => ({
        data: { cronId, slot, dueAt: dueAt.toISOString() } satisfies JobData,
        singletonKey: `${slot} ${dueAt.toISOString()}`,
      }))
      await boss.insert(QUEUE, jobs)
      await db.execute(sql`select pg_notify(${CHANNEL}, '')`)
    },
    async take(work) {
      const started = await pgBoss.startForJobs(QUEUE)
      if (!started) return false
      const { boss, within } = started
      return db.transaction(async (tx) => {
        const on = { db: within(tx) }
        const [job] = await boss.fetch<JobData>(QUEUE, { ...on, batchSize: 1 })
        if (!job) return false
        await boss.complete(QUEUE, job.id, undefined, on)
        return work(tx, { ...job.data, dueAt: new Date(job.data.dueAt) })
      })
    },
    listen(onWaiting) {
      notifications.listen(CHANNEL, { onMessage: onWaiting, onListening: onWaiting })
    },
    async discardTaken() {
      await (await pgBoss.startForJobs(QUEUE))?.boss.supervise(QUEUE)
    },
  }
}
