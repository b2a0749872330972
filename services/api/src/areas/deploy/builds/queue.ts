import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import type { Boss } from '../../cluster/queues/boss.ts'

/** Created by a migration, with its options; pg-boss itself never creates or changes a schema. */
const QUEUE = 'builds'
/** Announces a job. The payload is empty: listeners take whatever is next. */
const CHANNEL = 'builds'

/** Deployments that wait for a worker, in order of arrival. */
export interface Builds {
  /** Enqueues a deployment once the transaction `tx` commits. Safe to repeat: a deployment waits at most once. */
  enqueue(tx: Pick<Db, 'execute'>, deploymentId: string): Promise<void>
  /**
   * Takes the deployment that has waited longest, for this caller alone; undefined if none waits. It may have ended since: check
   * its row. If a worker dies, the job is not returned to the queue.
   */
  take(): Promise<string | undefined>
  /** Calls back whenever there may be a job, from now on. One listener. */
  listen(onWaiting: () => void): void
  /** Removes jobs that were taken long ago. Safe to repeat, and in several processes at once. */
  discardTaken(): Promise<void>
}

/** Opens the queue of deployments. */
export function openBuildQueue({ pgBoss, notifications }: { pgBoss: Boss; notifications: Notifications }): Builds {
  return {
    async enqueue(tx, deploymentId) {
      const { boss, within } = await pgBoss.start()
      await boss.send(QUEUE, { deploymentId }, { singletonKey: deploymentId, db: within(tx) })
      await tx.execute(sql`select pg_notify(${CHANNEL}, '')`)
    },
    async take() {
      const started = await pgBoss.startForJobs(QUEUE)
      const [job] = (await started?.boss.fetch<{ deploymentId: string }>(QUEUE, { batchSize: 1 })) ?? []
      if (!job) return undefined
      await started?.boss.complete(QUEUE, job.id)
      return job.data.deploymentId
    },
    listen(onWaiting) {
      notifications.listen(CHANNEL, { onMessage: onWaiting, onListening: onWaiting })
    },
    discardTaken: () => pgBoss.discardJobs(QUEUE),
  }
}
