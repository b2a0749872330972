import { and, asc, lt, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { CLEAN_UP_LOCK } from './advisory-locks.ts'
import type { Db } from './database.ts'

/** Small enough that a batch takes milliseconds. */
export const DISCARDED_AT_ONCE = 1_000

type Transaction = Parameters<Parameters<Db['transaction']>[0]>[0]

/**
 * Runs one batch of a clean-up in a transaction of its own. Returns undefined without waiting if another process is cleaning up.
 * Works through a pooler in transaction mode.
 */
export function inBatch<T>(db: Db, work: (tx: Transaction) => Promise<T>): Promise<T | undefined> {
  return db.transaction(async (tx) => {
    const [lock] = await tx.execute<{ got: boolean }>(sql`select pg_try_advisory_xact_lock(${CLEAN_UP_LOCK}) as got`)
    return lock?.got === true ? work(tx) : undefined
  })
}

/**
 * Deletes the rows whose `column` is before an instant, or before the first id of one, oldest first and a thousand at a time. The
 * column needs an index. Locked rows are skipped until the next run, so neither side waits for the other.
 *
 * Returns false if another process is cleaning up: the rest is left to that process, or to the next run.
 */
export async function discardBefore(db: Db, column: PgColumn, before: Date | string): Promise<boolean> {
  const { table } = column
  const over: SQL = lt(column, before)
  for (;;) {
    const discarded = await inBatch(db, async (tx) => {
      const batch = tx
        .select({ place: sql`ctid` })
        .from(table)
        .where(over)
        .orderBy(asc(column))
        .limit(DISCARDED_AT_ONCE)
        .for('update', { skipLocked: true })
      const { count } = await tx.delete(table).where(and(sql`ctid = any(array(${batch}))`, over))
      return count
    })
    if (discarded === undefined) return false
    if (discarded < DISCARDED_AT_ONCE) return true
  }
}
