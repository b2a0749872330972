import { runMigrations } from '@platform/runtime/migrate'
import { createDatabase, type TestDatabase } from '@platform/testkit/databases'
import { fillTables } from '@platform/testkit/release-workload'
import { migrationsOf } from './earlier-schemas.ts'

/** Twice the services' own limit, and below the 12 s after which they expect no answer. */
const STATEMENT_TIMEOUT_MS = 10_000

/**
 * A database of one's own with a service's current schema. Its connection string gives statements longer than a service does: what
 * makes one slow here is the machine, which other tests keep busy.
 */
export async function createServiceDatabase(service: 'api' | 'idp'): Promise<TestDatabase> {
  const database = await createDatabase({ name: service, migrate: (url) => runMigrations(url, migrationsOf(service)) })
  return { ...database, url: `${database.url}?statement_timeout=${STATEMENT_TIMEOUT_MS}` }
}

/** A database of its own that a program which is none of ours has made. */
export const createStrangersDatabase = (): Promise<TestDatabase> =>
  createDatabase({
    name: 'stranger',
    migrate: (url) => fillTables(url, {}, 1, ['create table invoices (id int primary key)']),
  })
