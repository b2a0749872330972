import { fileURLToPath } from 'node:url'
import { runMigrations } from '@platform/runtime/migrate'
import { createDatabase, type TestDatabase } from '@platform/testkit/databases'

/** A database of one's own with a service's current schema. */
export function createServiceDatabase(service: 'api' | 'idp'): Promise<TestDatabase> {
  const folder = fileURLToPath(new URL(`../../services/${service}/migrations`, import.meta.url))
  return createDatabase({ name: service, migrate: (url) => runMigrations(url, folder) })
}
