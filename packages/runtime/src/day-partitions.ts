import { sql } from 'drizzle-orm'
import { REQUEST_LOG_DAYS_LOCK } from './advisory-locks.ts'
import type { Db } from './database.ts'
import { firstIdAt } from './new-id.ts'

const DAY_MS = 86_400_000
const AHEAD_DAYS = 3

/** A table in partitions of a UTC day, by ids that are UUIDv7. Its name is of letters and underscores. */
type DailyTable = 'request_logs' | 'runtime_logs'

/** When the UTC day of a moment begins. */
export const dayOf = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS)
const nameOf = (table: DailyTable, day: Date): string =>
  `${table}_${day.toISOString().slice(0, 10).replaceAll('-', '')}`

/**
 * Makes the partition of a day unless it is there. A statement that cannot have its lock within a second gives up, so that
 * it never holds back what reads and writes the table.
 */
async function makeDay({ db }: { db: Db }, table: DailyTable, at: Date): Promise<void> {
  const day = dayOf(at)
  const name = nameOf(table, day)
  const [from, to] = [firstIdAt(day), firstIdAt(new Date(day.getTime() + DAY_MS))]
  const [found] = await db.execute(sql`select 1 where to_regclass(${name}) is not null`)
  if (found) return
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
    await tx.execute(sql`set local lock_timeout = '1s'`)
    // Names and bounds are made here, of digits; DDL takes no parameters.
    await tx.execute(
      sql.raw(`create table if not exists ${name} partition of ${table} for values from ('${from}') to ('${to}')`),
    )
  })
}

/** Does work that writes rows of some moments, once the partitions of their days are there. */
export type WithDays = (moments: readonly Date[], work: () => Promise<void>) => Promise<void>

/** Remembers which partitions were made, until work fails: one may have been dropped meanwhile. */
export function rememberDays(deps: { db: Db }, table: DailyTable): WithDays {
  /** As days since 1970. */
  const made = new Set<number>()
  return async (moments, work) => {
    try {
      for (const at of moments) {
        const day = Math.floor(at.getTime() / DAY_MS)
        if (!made.has(day)) await makeDay(deps, table, at)
        made.add(day)
      }
      await work()
    } catch (error) {
      made.clear()
      throw error
    }
  }
}

/** Makes the partitions of today and the three days to come, and drops those of days before `oldest`. Safe to repeat. */
export async function keepDaysSince(deps: { db: Db; now: () => Date }, table: DailyTable, oldest: Date): Promise<void> {
  const { db, now } = deps
  const today = dayOf(now())
  for (let ahead = 0; ahead <= AHEAD_DAYS; ahead++)
    await makeDay(deps, table, new Date(today.getTime() + ahead * DAY_MS))
  const partitions = await db.execute<{ name: string }>(
    sql`select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = ${table}::regclass and c.relname < ${nameOf(table, oldest)} order by 1`,
  )
  for (const { name } of partitions)
    await db.transaction(async (tx) => {
      // Two that drop one at once: the second may find the partition and no longer its parent, which is an error of Postgres.
      await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
      await tx.execute(sql`set local lock_timeout = '1s'`)
      await tx.execute(sql`drop table if exists ${sql.identifier(name)}`)
    })
}
