import { and, asc, lt, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { CLEAN_UP_LOCK } from './advisory-locks.ts'
import type { Db } from './database.ts'

/** Few enough that a batch is over in milliseconds. */
export const DISCARDED_AT_ONCE = 1_000

type Transaction = Parameters<Parameters<Db['transaction']>[0]>[0]

/**
 * Runs one batch of a clean-up in a transaction of its own, unless another process is cleaning up at this moment: then
 * undefined. Nobody waits for it, and it goes through a pooler in transaction mode.
 */
export function inBatch<T>(db: Db, work: (tx: Transaction) => Promise<T>): Promise<T | undefined> {
  return db.transaction(async (tx) => {
    const [lock] = await tx.execute<{ got: boolean }>(sql`select pg_try_advisory_xact_lock(${CLEAN_UP_LOCK}) as got`)
    return lock?.got === true ? work(tx) : undefined
  })
}

/**
 * Deletes the rows whose `column` lies before an instant, or before the first id of one, the oldest first and a thousand at a time. The
 * column wants an index. A row that somebody holds is passed over until the next time, so neither side waits for the other.
 *
 * Answers false when another process cleans up: then what is left is that one's, or for the next time.
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
