import { createClientAddress } from '@platform/ratelimit/client-address'
import { openLimiter } from '@platform/ratelimit/open-limiter'
import { openDatabase, openDatabaseProbe } from '@platform/runtime/database'
import { createLogger, type Logger } from '@platform/runtime/logger'
import { openNotifications } from '@platform/runtime/notifications'
import { createSealer } from '@platform/runtime/seal'
import type { Checks } from './dependencies.ts'
import { limiterFallbacks } from './metrics.ts'
import type { ServiceConfig } from './service-config.ts'

/** Replacements for tests. */
export interface ResourceOverrides {
  now?: () => Date
  logger?: Logger
}

/**
 * Opens the resources that every service needs: its database, the limiter, NOTIFY, the sealer of its secrets, log and clock.
 * Does not wait for Redis. Close whatever uses these before calling `close`.
 *
 * service: its name in log lines; pool: the name of its connections, in Postgres and in metrics; limiterPrefix: separates its
 * counters from others in a shared Redis.
 */
export async function openResources(
  config: ServiceConfig,
  { service, pool, limiterPrefix }: { service: string; pool: string; limiterPrefix: string },
  overrides: ResourceOverrides,
) {
  const now = overrides.now ?? (() => new Date())
  const logger = overrides.logger ?? createLogger(service, config.LOG_LEVEL)
  for (const warning of config.warnings) logger.warn(warning)
  const clientAddress = createClientAddress(config.TRUSTED_PROXIES)
  const { db, close: closeDatabase } = openDatabase(config.DATABASE_URL, {
    name: pool,
    max: config.DATABASE_POOL,
    prepare: config.DATABASE_PREPARE,
    idleMs: config.DATABASE_IDLE_MS,
  })
  const probe = openDatabaseProbe(config.DATABASE_URL)
  const notifications = openNotifications(config.DATABASE_URL, logger)
  const limiter = await openLimiter({
    redisUrl: config.REDIS_URL,
    prefix: limiterPrefix,
    now,
    logger,
    onFallback: () => limiterFallbacks.inc(),
  })
  const checks: Checks = {
    database: {
      variable: 'DATABASE_URL',
      async check() {
        if (!(await probe.isAnswering())) throw new Error('The database does not answer')
      },
    },
    ...(limiter.check && { redis: { variable: 'REDIS_URL', check: limiter.check } }),
  }
  return {
    now,
    logger,
    db,
    sealer: createSealer(config.MASTER_KEYS),
    notifications,
    limiter,
    clientAddress,
    /** True if the database responds; resolves within a second. */
    isReady: () => probe.isAnswering(),
    /** For `watchDependencies`. */
    checks,
    async close(): Promise<void> {
      await notifications.close()
      await limiter.close()
      await probe.close()
      await closeDatabase()
    },
  }
}
