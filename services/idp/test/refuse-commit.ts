import { sql } from 'drizzle-orm'
import type { TestIdp } from './start.ts'

/**
 * Makes Postgres refuse every transaction that changes a row of someone, but only at its commit: all statements have run by then.
 * Returns a function that ends this, and is safe to repeat.
 */
export async function refuseCommits(
  { deps: { db } }: TestIdp,
  table: 'users' | 'refresh_families',
  column: 'id' | 'user_id',
  userId: string,
): Promise<() => Promise<void>> {
  await db.execute(sql`
    create function refuse_commit() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`)
  await db.execute(sql`
    create constraint trigger refuse_commit after update on ${sql.identifier(table)} deferrable initially deferred
    for each row when (new.${sql.identifier(column)} = ${sql.raw(`'${userId}'`)}) execute function refuse_commit()`)
  return async () => void (await db.execute(sql`drop function if exists refuse_commit cascade`))
}
