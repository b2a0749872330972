import { sql } from 'drizzle-orm'
import { REQUEST_LOG_DAYS_LOCK } from './advisory-locks.ts'
import type { Db } from './database.ts'
import { firstIdAt } from './new-id.ts'

const DAY_MS = 86_400_000

/** A UTC period that one partition covers. */
interface Period {
  /** Returns the start of the period that contains `time`. */
  beginOf(time: Date): Date
  /** Returns the end of the period that starts at `begin`. */
  endOf(begin: Date): Date
  /** Number of ISO date digits that name the period. */
  nameLength: number
  /** Number of future periods whose partitions are created in advance. */
  ahead: number
}

/** Returns the start of the UTC day. */
export const dayOf = (time: Date): Date => new Date(Math.floor(time.getTime() / DAY_MS) * DAY_MS)

/** Returns the start of the UTC month. */
export const monthOf = (time: Date): Date => new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth()))

const days: Period = {
  beginOf: dayOf,
  endOf: (begin) => new Date(begin.getTime() + DAY_MS),
  nameLength: '2026-01-01'.length,
  ahead: 3,
}
const months: Period = {
  beginOf: monthOf,
  endOf: (begin) => new Date(Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth() + 1)),
  nameLength: '2026-01'.length,
  ahead: 1,
}

/** Tables partitioned by their UUIDv7 ids. Their names consist of letters and underscores. */
const periods = { request_logs: days, runtime_logs: days, ai_usage_events: months }
type PartitionedTable = keyof typeof periods

const nameOf = (table: PartitionedTable, begin: Date): string =>
  `${table}_${begin.toISOString().slice(0, periods[table].nameLength).replaceAll('-', '')}`

/**
 * Creates the partition that starts at `begin` unless it exists. A statement that does not get its lock within a second fails,
 * so that it never blocks reads and writes of the table.
 */
async function makePartition({ db }: { db: Db }, table: PartitionedTable, begin: Date): Promise<void> {
  const name = nameOf(table, begin)
  const [from, to] = [firstIdAt(begin), firstIdAt(periods[table].endOf(begin))]
  const [existing] = await db.execute(sql`select 1 where to_regclass(${name}) is not null`)
  if (existing) return
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
    await tx.execute(sql`set local lock_timeout = '1s'`)
    // Names and bounds are generated here, from digits; DDL accepts no parameters.
    await tx.execute(
      sql.raw(`create table if not exists ${name} partition of ${table} for values from ('${from}') to ('${to}')`),
    )
  })
}

/** Runs work that writes rows with the given times, after making sure that their partitions exist. */
export type WithPartitions = (moments: readonly Date[], work: () => Promise<void>) => Promise<void>

/** Remembers which partitions exist, until work fails: one may have been dropped meanwhile. */
export function rememberPartitions(deps: { db: Db }, table: PartitionedTable): WithPartitions {
  /** Start times. */
  const made = new Set<number>()
  return async (moments, work) => {
    try {
      for (const time of moments) {
        const begin = periods[table].beginOf(time)
        if (!made.has(begin.getTime())) await makePartition(deps, table, begin)
        made.add(begin.getTime())
      }
      await work()
    } catch (error) {
      made.clear()
      throw error
    }
  }
}

/** Creates the partitions of the current period and of upcoming ones: three days, or one month. Safe to repeat. */
export async function makePartitionsAhead(deps: { db: Db; now: () => Date }, table: PartitionedTable): Promise<void> {
  const { beginOf, endOf, ahead } = periods[table]
  let begin = beginOf(deps.now())
  for (let n = 0; n <= ahead; n++) {
    await makePartition(deps, table, begin)
    begin = endOf(begin)
  }
}

/** Returns the start of the oldest period that has a partition; undefined if there is none. */
export async function oldestPeriod({ db }: { db: Db }, table: PartitionedTable): Promise<Date | undefined> {
  const [oldest] = await db.execute<{ digits: string | null }>(
    sql`select min(right(c.relname, -length(${`${table}_`}))) as digits
        from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = ${table}::regclass`,
  )
  if (oldest?.digits == null) return undefined
  return new Date(oldest.digits.replaceAll(/(?<=^\d{4}|^\d{6})(?=\d)/g, '-'))
}

/** Creates partitions as `makePartitionsAhead` does, and drops those of periods before `oldest`. Safe to repeat. */
export async function keepPartitionsSince(
  deps: { db: Db; now: () => Date },
  table: PartitionedTable,
  oldest: Date,
): Promise<void> {
  const { db } = deps
  await makePartitionsAhead(deps, table)
  const partitions = await db.execute<{ name: string }>(
    sql`select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = ${table}::regclass and c.relname < ${nameOf(table, oldest)} order by 1`,
  )
  for (const { name } of partitions)
    await db.transaction(async (tx) => {
      // With two concurrent drops the second may find the partition but not its parent, which is an error in Postgres.
      await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
      await tx.execute(sql`set local lock_timeout = '1s'`)
      await tx.execute(sql`drop table if exists ${sql.identifier(name)}`)
    })
}
