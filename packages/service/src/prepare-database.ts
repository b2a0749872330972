import type { Logger } from '@platform/runtime/logger'
import { requireMigrations, runMigrations } from '@platform/runtime/migrate'
import type { ServiceConfig } from './service-config.ts'

type DatabaseConfig = Pick<ServiceConfig, 'DATABASE_URL' | 'MIGRATE_ON_START' | 'MIGRATION_PATIENCE_MS'>

export type PrepareDatabase = (config: DatabaseConfig, logger?: Logger) => Promise<void>

/**
 * Returns what brings a service's database to the schema of this release, or, where MIGRATE_ON_START is false, makes sure that
 * it is there. Safe to repeat, and from several processes at once.
 *
 * service: the name of its folder, which holds the command; folder: its migrations.
 */
export const createDatabasePreparation =
  (service: string, folder: string): PrepareDatabase =>
  (config, logger) =>
    config.MIGRATE_ON_START
      ? runMigrations(config.DATABASE_URL, folder, { patienceMs: config.MIGRATION_PATIENCE_MS, logger })
      : requireMigrations(config.DATABASE_URL, folder, `node services/${service}/src/cli.ts migrate`)
