import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runMigrations } from '@platform/runtime/migrate'
import { createDatabase, type TestDatabase } from '@platform/testkit/databases'
import { withMigrationsUpTo } from '@platform/testkit/migration-folder'
import { type Exceptions, fillTables } from '@platform/testkit/release-workload'

type Service = 'api' | 'idp'

/** A release that upgrades start from, as releases.json has it. */
export interface Release {
  version: string
  /** The commit before the one that adds the entry. */
  commit: string
  /** The newest migration of each service. */
  lastMigration: Record<Service, string>
  /** The variables that each service reads. */
  variables: Record<Service, string[]>
}

/** Oldest first. */
export const releases = JSON.parse(
  readFileSync(new URL('../../releases.json', import.meta.url), 'utf8'),
) as readonly Release[]

/** The folder of a service's migrations. */
export const migrationsOf = (service: Service): string =>
  fileURLToPath(new URL(`../../services/${service}/migrations`, import.meta.url))

/** What ties columns to each other, and a catalog does not say in a way that can be followed. */
export const exceptions: Record<Service, Exceptions> = {
  api: {
    api_keys: { deployment_id: null, environment_id: null },
    env_vars: { layer: 'application', application_id: { of: 'applications', column: 'id' } },
  },
  idp: {},
}

/** What a service makes while it runs and its tables need to take rows, once they are there. */
const preparations: Record<Service, readonly string[]> = {
  api: ['request_logs', 'runtime_logs', 'ai_usage_events'].map(
    (table) => `do $$ begin if to_regclass('${table}') is not null then
      create table if not exists ${table}_any partition of ${table} default; end if; end $$`,
  ),
  idp: [],
}

/** Migrates a database up to a migration of a service, and no further. */
export const migrateTo = (service: Service, url: string, tag: string): Promise<void> =>
  withMigrationsUpTo(migrationsOf(service), tag, (upTo) => runMigrations(url, upTo))

/** A database of its own as a service left it whose newest migration was `tag`: its schema, and `rows` rows in every table. */
export const databaseAt = (service: Service, tag: string, rows: number): Promise<TestDatabase> =>
  createDatabase({
    name: `${service}_at_${tag.slice(0, 4)}_${rows}`,
    async migrate(url) {
      await migrateTo(service, url, tag)
      await fillTables(url, exceptions[service], rows, preparations[service])
    },
  })
