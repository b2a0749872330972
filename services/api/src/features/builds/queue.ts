import { type Db, openDatabase } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import type { Db as QueueDatabase, PgBoss } from 'pg-boss'

/** Made by a migration, with its options; pg-boss is never asked to make or change a schema. */
const QUEUE = 'builds'
/** Says that there is a job. The payload is empty: whoever hears it takes what is next. */
const CHANNEL = 'builds'

/** Deployments that wait for a worker, in the order they came. */
export interface Builds {
  /**
   * Asks for a deployment to be worked on, once the transaction `tx` commits. Safe to repeat: while a deployment waits, it
   * waits once.
   */
  enqueue(tx: Pick<Db, 'execute'>, deploymentId: string): Promise<void>
  /**
   * The deployment that has waited longest, for this caller alone; undefined if none waits. It may have ended since: its row
   * says whether work is left. A worker that dies does not give the job back.
   */
  take(): Promise<string | undefined>
  /** Calls back whenever there may be something to take, from now on. One listener. */
  listen(onWaiting: () => void): void
  /** Removes the jobs that were taken long ago. Safe to repeat, and in several processes at once. */
  discardTaken(): Promise<void>
  close(): Promise<void>
}

interface QueueOptions {
  db: Db
  databaseUrl: string
  logger: Logger
  notifications: Notifications
}

/** True if the queue holds a job, taken ones included. Throws where the database lacks the schema of pg-boss. */
async function hasJobs(db: Db): Promise<boolean> {
  const [job] = await db.execute(sql`select 1 from pgboss.job where name = ${QUEUE} limit 1`)
  return job !== undefined
}

type QueueAccess = Pick<QueueOptions, 'db' | 'databaseUrl' | 'logger'>

/**
 * Starts pg-boss, on a connection of its own: whoever sends the first job may hold the last connection of the pool. Throws
 * where the database has the schema of another version.
 */
async function startBoss({ db, databaseUrl, logger }: QueueAccess) {
  const { fromDrizzle, PgBoss: Boss } = await import('pg-boss')
  const openOwn = () => openDatabase(databaseUrl, { name: 'platform-builds', max: 1, prepare: false })
  // The driver gives a list of rows, or for several statements a list of such lists.
  const runOn =
    (on: Db): QueueDatabase['executeSql'] =>
    async (text, values) => ({ rows: (await fromDrizzle(on, sql).executeSql(text, values)).rows.flat() as never[] })
  const runAlone: QueueDatabase['executeSql'] = async (text, values) => {
    const own = openOwn()
    try {
      return await runOn(own.db)(text, values)
    } finally {
      await own.close()
    }
  }
  const starter = openOwn()
  let isStarting = true
  let failure: unknown
  const runAtStart: QueueDatabase['executeSql'] = (text, values) =>
    runOn(starter.db)(text, values).catch((error: unknown) => {
      failure = error
      throw error
    })
  const queueDatabase: QueueDatabase = {
    executeSql: (text, values) => {
      if (isStarting) return runAtStart(text, values)
      return (/^\s*begin\b/i.test(text) ? runAlone : runOn(db))(text, values)
    },
  }
  const boss: PgBoss = new Boss({
    db: queueDatabase,
    schema: 'pgboss',
    migrate: false,
    supervise: false,
    schedule: false,
    reindex: false,
  })
  boss.on('error', (error) => logger.warn({ err: error }, 'the build queue failed'))
  boss.on('warning', ({ message, data }) => logger.warn({ data }, message))
  try {
    await boss.start()
    // A start that could not read its queues says nothing, and would refuse every job for a minute.
    if (failure) throw failure
  } catch (error) {
    await boss.stop({ graceful: false })
    throw error
  } finally {
    isStarting = false
    await starter.close()
  }
  return { boss, fromDrizzle }
}

/**
 * Opens the queue over the pool of the process. The maintenance of pg-boss writes transactions out, which a pool cannot take: it gets a
 * connection for as long as it runs. pg-boss is loaded with the first job, since it takes 23 MB and most processes never see one.
 *
 * Throws where the database lacks the schema of pg-boss.
 */
export async function openBuildQueue({ notifications, ...access }: QueueOptions): Promise<Builds> {
  const { db } = access
  let starting: ReturnType<typeof startBoss> | undefined
  /** A start that failed is tried again at the next use. */
  const started = () =>
    (starting ??= startBoss(access).catch((error: unknown) => {
      starting = undefined
      throw error
    }))
  /** Undefined while there is nothing to start it for. */
  const startedForJobs = async () => (starting || (await hasJobs(db)) ? started() : undefined)
  await hasJobs(db)

  return {
    async enqueue(tx, deploymentId) {
      const { boss, fromDrizzle } = await started()
      await boss.send(QUEUE, { deploymentId }, { singletonKey: deploymentId, db: fromDrizzle(tx, sql) })
      await tx.execute(sql`select pg_notify(${CHANNEL}, '')`)
    },
    async take() {
      const queue = await startedForJobs()
      const [job] = (await queue?.boss.fetch<{ deploymentId: string }>(QUEUE, { batchSize: 1 })) ?? []
      if (!job) return undefined
      await queue?.boss.complete(QUEUE, job.id)
      return job.data.deploymentId
    },
    listen(onWaiting) {
      notifications.listen(CHANNEL, { onMessage: onWaiting, onListening: onWaiting })
    },
    async discardTaken() {
      await (await startedForJobs())?.boss.supervise(QUEUE)
    },
    async close() {
      await (await starting)?.boss.stop({ graceful: false })
    },
  }
}
