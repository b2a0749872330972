import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import type { Boss } from '../../cluster/queues/boss.ts'

/** Created by a migration, with its options. */
const QUEUE = 'crons'
/** Announces new jobs. The payload is empty. */
const CHANNEL = 'crons'

/** A due cron; queued once per environment. */
export interface DueCron {
  cronId: string
  slot: string
  /** The start of the minute. */
  dueAt: Date
}

type Transaction = Parameters<Parameters<Db['transaction']>[0]>[0]

/** Due crons that wait for a worker. */
export interface CronQueue {
  /** Safe to repeat, and in several processes at once: a waiting cron is queued once. */
  enqueue(due: readonly DueCron[]): Promise<void>
  /**
   * Takes the job that has waited longest, for this caller alone, in the transaction in which `work` handles it: if `work` fails
   * or its process dies, the job returns to the queue. Returns the result of `work`, or false if no job waits.
   */
  take<T>(work: (tx: Transaction, due: DueCron) => Promise<T>): Promise<T | false>
  /** Calls back whenever there may be a job, from now on. One listener. */
  listen(onWaiting: () => void): void
  /** Removes jobs that were taken long ago. Safe to repeat, and in several processes at once. */
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
    discardTaken: () => pgBoss.discardJobs(QUEUE),
  }
}
