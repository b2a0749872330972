import { openDatabase, type Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { sql } from 'drizzle-orm'
import type { Db as QueueDatabase, PgBoss } from 'pg-boss'

interface BossOptions {
  db: Db
  databaseUrl: string
  logger: Logger
}

/** pg-boss, and how its calls take part in a transaction: `{ db: within(tx) }`. */
interface Started {
  boss: PgBoss
  within(tx: Pick<Db, 'execute'>): QueueDatabase
}

/** pg-boss over the pool of the process. It takes 23 MB and is loaded with the first job, since most processes never see one. */
export interface Boss {
  /** Loads and starts it. A start that failed is tried again at the next call. */
  start(): Promise<Started>
  /** The same, but undefined while no queue of this process had a job and this one has none either, taken ones included. */
  startForJobs(queue: string): Promise<Started | undefined>
  close(): Promise<void>
}

/** Throws where the database lacks the schema of pg-boss. */
async function hasJobs(db: Db, queue: string): Promise<boolean> {
  const [job] = await db.execute(sql`select 1 from pgboss.job where name = ${queue} limit 1`)
  return job !== undefined
}

/**
 * Starts pg-boss, on a connection of its own: whoever sends the first job may hold the last connection of the pool. Throws
 * where the database has the schema of another version.
 */
async function startBoss({ db, databaseUrl, logger }: BossOptions): Promise<Started> {
  const { fromDrizzle, PgBoss: Boss } = await import('pg-boss')
  const openOwn = () => openDatabase(databaseUrl, { name: 'platform-queues', max: 1, prepare: false })
  // The driver gives a list of rows, or for several statements a list of such lists.
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
    // A start that could not read its queues says nothing, and would refuse every job for a minute.
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
 * Opens pg-boss over the pool of the process. Its maintenance writes transactions out, which a pool cannot take: it gets a connection
 * for as long as it runs.
 *
 * Throws where the database lacks the schema of pg-boss.
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
