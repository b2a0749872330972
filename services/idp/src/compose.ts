import { fileURLToPath } from 'node:url'
import { ownKeys } from '@platform/auth/issuer-keys'
import { openKeySet } from '@platform/auth/key-set'
import { createTokenVerifier } from '@platform/auth/token-verifier'
import { createClientAddress } from '@platform/ratelimit/client-address'
import { openLimiter } from '@platform/ratelimit/open-limiter'
import { openDatabase, openDatabaseProbe } from '@platform/runtime/database'
import { createLogger, type Logger } from '@platform/runtime/logger'
import { limiterFallbacks } from '@platform/service/metrics'
import { runMigrations } from '@platform/runtime/migrate'
import { openNotifications } from '@platform/runtime/notifications'
import { createSealer } from '@platform/runtime/seal'
import { createAfterAnswer } from './after-answer.ts'
import type { Config } from './config.ts'
import type { Deps } from './deps.ts'
import { createMailFolder } from './drivers/mail-folder.ts'
import { createMailSmtp } from './drivers/mail-smtp.ts'
import { createPasswords } from './features/accounts/passwords.ts'
import type { Mailer } from './features/mail/mailer.ts'
import { openRefreshKeys } from './features/refresh/refresh-keys.ts'

interface Overrides {
  now?: () => Date
  logger?: Logger
}

const migrations = fileURLToPath(new URL('../migrations', import.meta.url))

/** Brings the database to the schema of this code. Safe to repeat, and from several processes at once. */
export const migrate = (config: Config): Promise<void> => runMigrations(config.DATABASE_URL, migrations)

function openMailer({ MAIL_URL: url, mailFrom: from }: Config, now: () => Date, logger: Logger): Mailer | undefined {
  if (url === undefined) return undefined
  return url.startsWith('file:')
    ? createMailFolder({ folder: fileURLToPath(url), from, now, logger })
    : createMailSmtp({ url, from })
}

/** The composition root: opens everything and alone knows which driver stands behind it. Expects the schema of this code. */
export async function compose(
  config: Config,
  overrides: Overrides = {},
): Promise<{ deps: Deps; close(): Promise<void> }> {
  const now = overrides.now ?? (() => new Date())
  const logger = overrides.logger ?? createLogger('idp', config.LOG_LEVEL)
  const addressOf = createClientAddress(config.TRUSTED_PROXIES)

  const { db, close: closeDatabase } = openDatabase(config.DATABASE_URL, {
    name: 'idp',
    max: config.DATABASE_POOL,
    prepare: config.DATABASE_PREPARE,
  })
  const probe = openDatabaseProbe(config.DATABASE_URL)
  const sealer = createSealer(config.MASTER_KEYS)
  const notifications = openNotifications(config.DATABASE_URL, logger)
  const keySet = await openKeySet({ db, alg: 'RS256', sealer, now, logger, notifications })
  const refreshKeys = await openRefreshKeys({ db, sealer, now, logger, notifications })
  const limiter = await openLimiter({
    redisUrl: config.REDIS_URL,
    prefix: 'idp:',
    now,
    logger,
    onFallback: () => limiterFallbacks.inc(),
  })
  const afterAnswer = createAfterAnswer(logger)
  const passwords = createPasswords()
  const issuer = config.PUBLIC_URL

  return {
    deps: {
      issuer,
      accountUrl: config.accountUrl,
      accountPath: new URL(config.accountUrl).pathname.replace(/\/$/, ''),
      audiences: [...new Set([...config.AUDIENCES, issuer])],
      db,
      now,
      logger,
      keySet,
      refreshKeys,
      passwords,
      sealer,
      limiter,
      addressOf,
      mailer: openMailer(config, now, logger),
      afterAnswer,
      verifyAccessToken: createTokenVerifier([{ issuer, audience: issuer, alg: 'RS256', keys: ownKeys(keySet) }], now)
        .verify,
      isDatabaseAnswering: () => probe.isAnswering(),
      listenOn: {
        host: config.HOST,
        port: config.PORT,
        healthHost: config.HEALTH_HOST,
        healthPort: config.HEALTH_PORT,
      },
    },
    async close() {
      await afterAnswer.settled()
      passwords.close()
      keySet.close()
      refreshKeys.close()
      await notifications.close()
      await limiter.close()
      await probe.close()
      await closeDatabase()
    },
  }
}
