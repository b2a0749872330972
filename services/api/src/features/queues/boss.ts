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

/** pg-boss on the process's pool. It needs 23 MB and is loaded with the first job, since most processes never have one. */
export interface Boss {
  /** Loads and starts it. After a failed start, the next call tries again. */
  start(): Promise<Started>
  /** The same, but returns undefined as long as no queue of this process had a job and this one has none, taken ones included. */
  startForJobs(queue: string): Promise<Started | undefined>
  close(): Promise<void>
}

/** Throws if the database lacks the schema of pg-boss. */
async function hasJobs(db: Db, queue: string): Promise<boolean> {
  const [job] = await db.execute(sql`select 1 from pgboss.job where name = ${queue} limit 1`)
  return job !== undefined
}

/**
 * Starts pg-boss on a connection of its own: the sender of the first job may hold the pool's last one. Throws if the database has
 * the schema of another version.
 */
async function startBoss({ db, databaseUrl, logger }: BossOptions): Promise<Started> {
  const { fromDrizzle, PgBoss: Boss } = await import('pg-boss')
  const openOwn = () => openDatabase(databaseUrl, { name: 'platform-queues', max: 1, prepare: false })
  // The driver returns a list of rows, or for several statements a list of such lists.
  const runOn =
    (on: Pick<Db, 'execute'>): QueueDatabase['executeSql'] =>
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
 * Opens pg-boss on the process's pool. Its maintenance sends explicit BEGIN and COMMIT, which a pool cannot handle, so it gets a
 * connection while that runs.
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
    async close() {
      await (await starting)?.boss.stop({ graceful: false })
    },
  }
}
