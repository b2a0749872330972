import { openDatabase, type Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { sql } from 'drizzle-orm'
import type { Db as QueueDatabase, PgBoss } from 'pg-boss'

interface BossOptions {
  db: Db
  databaseUrl: string
  logger: Logger
}

/** pg-boss, and how its calls join a transaction: `{ db: within(tx) }`. */
interface Started {
  boss: PgBoss
  within(tx: Pick<Db, 'execute'>): QueueDatabase
}

/** pg-boss on the process's pool. It needs 23 MB and is loaded with the first job, since few processes have one. */
export interface Boss {
  /** Loads and starts it. After a failed start, the next call tries again. */
  start(): Promise<Started>
  /** The same, but returns undefined as long as no queue of this process had a job and none waits in this one. */
  startForJobs(queue: string): Promise<Started | undefined>
  /** Removes the jobs of a queue that were taken, or kept, for as long as their queue says. Does not load it. Safe to repeat. */
  discardJobs(queue: string): Promise<void>
  close(): Promise<void>
}

/** Whether a job waits in a queue. Throws if the database lacks the schema of pg-boss. */
async function hasJobs(db: Db, queue: string): Promise<boolean> {
  const [job] = await db.execute(sql`select 1 from pgboss.job where name = ${queue} and state < 'active' limit 1`)
  return job !== undefined
}

/** What pg-boss's maintenance does for our queues, without loading it, and in one statement. */
async function discardJobs(db: Db, queue: string): Promise<void> {
  await db.execute(sql`
    delete from pgboss.job
    where name = ${queue}
      and case when state < 'active' then keep_until
        else coalesce(completed_on, started_on) + make_interval(secs => deletion_seconds) end < now()`)
}

/**
 * Starts pg-boss on a connection of its own: the sender of the first job may hold the pool's last one. Throws if the database has
 * the schema of another version.
 */
async function startBoss({ db, databaseUrl, logger }: BossOptions): Promise<Started> {
  const { fromDrizzle, PgBoss: Boss } = await import('pg-boss')
  // The driver returns a list of rows, or for several statements a list of such lists.
  const runOn =
    (on: Pick<Db, 'execute'>): QueueDatabase['executeSql'] =>
    async (text, values) => ({ rows: (await fromDrizzle(on, sql).executeSql(text, values)).rows.flat() as never[] })
  const starter = openDatabase(databaseUrl, { name: 'platform-queues', max: 1, prepare: false })
  let isStarting = true
  let failure: unknown
  const runAtStart: QueueDatabase['executeSql'] = (text, values) =>
    runOn(starter.db)(text, values).catch((error: unknown) => {
      failure = error
      throw error
    })
  const queueDatabase: QueueDatabase = {
    executeSql: (text, values) => (isStarting ? runAtStart : runOn(db))(text, values),
  }
  const boss: PgBoss = new Boss({
    db: queueDatabase,
    schema: 'pgboss',
    migrate: false,
    supervise: false,
    schedule: false,
    reindex: false,
  })
  boss.on('error', (error) => logger.warn({ err: error }, 'a queue failed'))
  boss.on('warning', ({ message, data }) => logger.warn({ data }, message))
  try {
    await boss.start()
    // If reading its queues fails, pg-boss starts without an error, and would refuse every job for a minute.
    if (failure) throw failure
  } catch (error) {
    await boss.stop({ graceful: false })
    throw error
  } finally {
    isStarting = false
    await starter.close()
  }
  return { boss, within: (tx) => ({ executeSql: runOn(tx) }) }
}

/**
 * Opens pg-boss on the process's pool. Its maintenance never runs: see discardJobs.
 *
 * Throws if the database lacks the schema of pg-boss.
 */
export async function openBoss(options: BossOptions): Promise<Boss> {
  const { db } = options
  let starting: Promise<Started> | undefined
  const start = () =>
    (starting ??= startBoss(options).catch((error: unknown) => {
      starting = undefined
      throw error
    }))
  await hasJobs(db, '')
  return {
    start,
    startForJobs: async (queue) => (starting || (await hasJobs(db, queue)) ? start() : undefined),
    discardJobs: (queue) => discardJobs(db, queue),
    async close() {
      await (await starting)?.boss.stop({ graceful: false })
    },
  }
}
