import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import { MIGRATION_LOCK } from './advisory-locks.ts'

/**
 * How long a statement waits for a lock. While it waits, whatever comes after it to the same table waits behind it: less than
 * the 5 s after which the services' own statements end, so that a backup or a report that holds a table costs the release
 * that serves no request.
 */
const LOCK_TIMEOUT_MS = 3_000

/**
 * Brings a database to the newest schema, in one transaction. Processes that start together wait for each other; a
 * statement that cannot get its lock within 3 s gives up, so that a migration never stands in the way of the code
 * that serves meanwhile. It may then be run again.
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
