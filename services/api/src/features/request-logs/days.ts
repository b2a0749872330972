import { REQUEST_LOG_DAYS_LOCK } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { firstIdAt } from '@platform/runtime/new-id'
import { and, eq, lt, max, sql } from 'drizzle-orm'
import { quotas } from '../products/registry.ts'
import { quotaOverrides } from '../products/table.ts'
import { requestCounts, requestPathRanks } from './table.ts'

const DAY_MS = 86_400_000
const AHEAD_DAYS = 3

const dayOf = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS)
const nameOf = (day: Date): string => `request_logs_${day.toISOString().slice(0, 10).replaceAll('-', '')}`

/**
 * Makes the partition of a day unless it is there. A statement that cannot have its lock within a second gives up, so that
 * it never holds back what reads and writes the table.
 */
export async function makeDay({ db }: { db: Db }, at: Date): Promise<void> {
  const day = dayOf(at)
  const [from, to] = [firstIdAt(day), firstIdAt(new Date(day.getTime() + DAY_MS))]
  const [found] = await db.execute(sql`select 1 where to_regclass(${nameOf(day)}) is not null`)
  if (found) return
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
    await tx.execute(sql`set local lock_timeout = '1s'`)
    // Names and bounds are made here, of digits; DDL takes no parameters.
    await tx.execute(
      sql.raw(
        `create table if not exists ${nameOf(day)} partition of request_logs for values from ('${from}') to ('${to}')`,
      ),
    )
  })
}

/** The longest that any organization may look back. */
async function retentionDaysMax({ db }: { db: Db }): Promise<number> {
  const [row] = await db
    .select({ days: max(quotaOverrides.limit) })
    .from(quotaOverrides)
    .where(eq(quotaOverrides.quota, 'log_retention_days'))
  return Math.max(...Object.values(quotas).map((plan) => plan.log_retention_days), row?.days ?? 0)
}

/** Makes the partitions of the days to come, and drops those that nobody may look at any more. Safe to repeat. */
export async function keepDays(deps: { db: Db; now: () => Date }): Promise<void> {
  const { db, now } = deps
  const today = dayOf(now())
  for (let ahead = 0; ahead <= AHEAD_DAYS; ahead++) await makeDay(deps, new Date(today.getTime() + ahead * DAY_MS))

  const oldest = new Date(today.getTime() - (await retentionDaysMax(deps)) * DAY_MS)
  const partitions = await db.execute<{ name: string }>(
    sql`select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'request_logs'::regclass and c.relname < ${nameOf(oldest)} order by 1`,
  )
  for (const { name } of partitions)
    await db.transaction(async (tx) => {
      // Two that drop one at once: the second may find the partition and no longer its parent, which is an error of Postgres.
      await tx.execute(sql`select pg_advisory_xact_lock(${REQUEST_LOG_DAYS_LOCK})`)
      await tx.execute(sql`set local lock_timeout = '1s'`)
      await tx.execute(sql`drop table if exists ${sql.identifier(name)}`)
    })
  await db.delete(requestCounts).where(and(lt(requestCounts.hour, oldest)))
  await discardBefore(db, requestPathRanks.hour, oldest)
}
