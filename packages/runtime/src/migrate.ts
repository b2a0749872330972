import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import { MIGRATION_LOCK } from './advisory-locks.ts'

/**
 * How long a statement waits for a lock. While it waits, later statements on the same table queue behind it: the limit is below
 * the 5 s after which the services' own statements fail, so that a backup or report that locks a table fails the release, which
 * serves no requests, and not the running services.
 */
const LOCK_TIMEOUT_MS = 3_000

/**
 * Migrates a database to the latest schema, in one transaction. Processes that start together wait for each other; a statement
 * that does not get its lock within 3 s fails, so that a migration never blocks the code that is serving. It is then safe to
 * retry.
 *
 * folder: drizzle-kit's SQL files and journal.
 */
export async function runMigrations(databaseUrl: string, folder: string): Promise<void> {
  const sql = postgres(databaseUrl, {
    max: 1,
    onnotice: () => {},
    connect_timeout: 10,
    connection: { lock_timeout: LOCK_TIMEOUT_MS },
  })
  try {
    await sql`set lock_timeout = 0`
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`
    await sql.unsafe(`set lock_timeout = ${LOCK_TIMEOUT_MS}`)
    await migrate(drizzle(sql), { migrationsFolder: folder })
  } finally {
    await sql.end({ timeout: 5 })
  }
}
