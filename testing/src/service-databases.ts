import { runMigrations } from '@platform/runtime/migrate'
import { createDatabase, type TestDatabase } from '@platform/testkit/databases'
import { fillTables } from '@platform/testkit/release-workload'
import { migrationsOf } from './earlier-schemas.ts'

/** A database of one's own with a service's current schema. */
export function createServiceDatabase(service: 'api' | 'idp'): Promise<TestDatabase> {
  return createDatabase({ name: service, migrate: (url) => runMigrations(url, migrationsOf(service)) })
}

/** A database of its own that a program which is none of ours has made. */
export const createStrangersDatabase = (): Promise<TestDatabase> =>
  createDatabase({
    name: 'stranger',
    migrate: (url) => fillTables(url, {}, 1, ['create table invoices (id int primary key)']),
  })
