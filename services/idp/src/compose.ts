import { fileURLToPath } from 'node:url'
import { ownKeys } from '@platform/auth/issuer-keys'
import { openKeySet } from '@platform/auth/key-set'
import { createTokenVerifier } from '@platform/auth/token-verifier'
import { openMailer } from '@platform/mail/open-mailer'
import { createAfterAnswer } from '@platform/service/after-answer'
import { createDatabasePreparation, type PrepareDatabase } from '@platform/service/prepare-database'
import type { Checks } from '@platform/service/dependencies'
import { createRequestRecord } from '@platform/service/request-record'
import { openResources, type ResourceOverrides } from '@platform/service/service-resources'
import type { Config } from './config.ts'
import type { Deps } from './deps.ts'
import { createHashing, type Hashing } from './features/accounts/hashing.ts'
import { createPasswords } from './features/accounts/passwords.ts'
import { createInvitationVerifier } from './features/invitations/invitation.ts'
import { openRefreshKeys } from './features/refresh/refresh-keys.ts'

export const prepareDatabase: PrepareDatabase = createDatabasePreparation(
  'idp',
  fileURLToPath(new URL('../migrations', import.meta.url)),
)

/** Replacements for tests; no variable of the environment reaches them. */
interface Overrides extends ResourceOverrides {
  hashing?: Hashing
  /** See createAfterAnswer. */
  afterAnswerAtOnce?: number
}

/** The composition root: opens everything, and alone chooses drivers. Expects the schema of this code. */
export async function compose(
  config: Config,
  overrides: Overrides = {},
): Promise<{ deps: Deps; isReady(): Promise<boolean>; checks: Checks; close(): Promise<void> }> {
  const resources = await openResources(config, { service: 'idp', pool: 'idp', limiterPrefix: 'idp:' }, overrides)
  const { now, logger, db, sealer, notifications, limiter } = resources
  const keySet = await openKeySet({ db, alg: 'RS256', sealer, now, logger, notifications })
  const refreshKeys = await openRefreshKeys({ db, sealer, now, logger, notifications })
  const afterAnswer = createAfterAnswer(logger, overrides.afterAnswerAtOnce)
  const passwords = createPasswords(overrides.hashing ?? createHashing(config.HASHING_IDLE_MS))
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
      recordRequest: createRequestRecord(logger),
      keySet,
      refreshKeys,
      passwords,
      sealer,
      limiter,
      addressOf: resources.clientAddress,
      mailer: await openMailer({
        url: config.MAIL_URL,
        from: config.MAIL_FROM,
        site: config.accountUrl,
        now,
        logger,
      }),
      mailFolderShown:
        config.SHOW_MAIL_FOLDER && config.MAIL_URL?.startsWith('file:') ? fileURLToPath(config.MAIL_URL) : undefined,
      signUp: {
        policy: config.SIGN_UP,
        domains: config.SIGN_UP_DOMAINS,
        invitationDomains: config.INVITATION_DOMAINS,
        supportUrl: config.SUPPORT_URL,
      },
      verifyInvitation: createInvitationVerifier(config.INVITATION_ISSUERS, issuer, now),
      takesInvitations: config.INVITATION_ISSUERS.length > 0,
      afterAnswer,
      verifyAccessToken: createTokenVerifier([{ issuer, audience: issuer, alg: 'RS256', keys: ownKeys(keySet) }], now)
        .verify,
    },
    isReady: resources.isReady,
    checks: resources.checks,
    async close() {
      await afterAnswer.settled()
      passwords.close()
      keySet.close()
      refreshKeys.close()
      await resources.close()
    },
  }
}
