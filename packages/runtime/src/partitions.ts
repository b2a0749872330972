import { sql } from 'drizzle-orm'
import { REQUEST_LOG_DAYS_LOCK } from './advisory-locks.ts'
import type { Db } from './database.ts'
import { firstIdAt } from './new-id.ts'

const DAY_MS = 86_400_000

/** A stretch of UTC time that one partition holds. */
interface Period {
  /** When the period of a moment begins. */
  beginOf(time: Date): Date
  /** When the period that begins at `begin` ends. */
  endOf(begin: Date): Date
  /** Digits of an ISO date that name the period. */
  nameLength: number
  /** How many of the periods to come have their partition in advance. */
  ahead: number
}

/** When the UTC day of a moment begins. */
export const dayOf = (time: Date): Date => new Date(Math.floor(time.getTime() / DAY_MS) * DAY_MS)

/** When the UTC month of a moment begins. */
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

/** Tables in partitions by ids that are UUIDv7. Their names are of letters and underscores. */
const periods = { request_logs: days, runtime_logs: days, ai_usage_events: months }
type PartitionedTable = keyof typeof periods

const nameOf = (table: PartitionedTable, begin: Date): string =>
  `${table}_${begin.toISOString().slice(0, periods[table].nameLength).replaceAll('-', '')}`

/**
 * Makes the partition that begins at `begin` unless it is there. A statement that cannot have its lock within a second gives up, so
 * that it never holds back what reads and writes the table.
 */
async function makePartition({ db }: { db: Db }, table: PartitionedTable, begin: Date): Promise<void> {
  const name = nameOf(table, begin)
  const [from, to] = [firstIdAt(begin), firstIdAt(periods[table].endOf(begin))]
  const [existing] = await db.execute(sql`select 1 where to_regclass(${name}) is not null`)
  if (existing) return
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
    await tx.execute(sql`set local lock_timeout = '1s'`)
    // Names and bounds are made here, of digits; DDL takes no parameters.
    await tx.execute(
      sql.raw(`create table if not exists ${name} partition of ${table} for values from ('${from}') to ('${to}')`),
    )
  })
}

/** Does work that writes rows of some moments, once their partitions are there. */
export type WithPartitions = (moments: readonly Date[], work: () => Promise<void>) => Promise<void>

/** Remembers which partitions were made, until work fails: one may have been dropped meanwhile. */
export function rememberPartitions(deps: { db: Db }, table: PartitionedTable): WithPartitions {
  /** By when they begin. */
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

/** Makes the partitions of the present period and of those to come: three days, or one month. Safe to repeat. */
export async function makePartitionsAhead(deps: { db: Db; now: () => Date }, table: PartitionedTable): Promise<void> {
  const { beginOf, endOf, ahead } = periods[table]
  let begin = beginOf(deps.now())
  for (let n = 0; n <= ahead; n++) {
    await makePartition(deps, table, begin)
    begin = endOf(begin)
  }
}

/** Makes partitions as `makePartitionsAhead` does, and drops those of periods before `oldest`. Safe to repeat. */
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
      // Two that drop one at once: the second may find the partition and no longer its parent, which is an error of Postgres.
      await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
      await tx.execute(sql`set local lock_timeout = '1s'`)
      await tx.execute(sql`drop table if exists ${sql.identifier(name)}`)
    })
}
