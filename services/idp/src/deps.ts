import type { AccessToken } from '@platform/auth/token-verifier'
import type { KeySet } from '@platform/auth/key-set'
import type { ClientAddress } from '@platform/ratelimit/client-address'
import type { RateLimiter } from '@platform/ratelimit/rate-limiter'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Sealer } from '@platform/runtime/seal'
import type { Mailer } from '@platform/mail/mailer'
import type { AfterAnswer } from '@platform/service/after-answer'
import type { AnsweredRequest } from '@platform/service/request-record'
import type { Passwords } from './features/accounts/passwords.ts'
import type { VerifyInvitation } from './features/invitations/invitation.ts'
import type { SignUpSettings } from './features/sign-up/settings.ts'
import type { RefreshKeys } from './features/refresh/refresh-keys.ts'

/** Everything a feature may need; compose.ts creates it once per process. */
export interface Deps {
  /** `{idp_url}`: the prefix of every URL that this service hands out. */
  issuer: string
  /** `{account_url}`, without a trailing slash, and its path (empty if it is the issuer itself). */
  accountUrl: string
  accountPath: string
  /** `aud` of access tokens: the configured services and the issuer itself (D5). */
  audiences: readonly string[]
  db: Db
  now: () => Date
  logger: Logger
  /** Counts an answered request and writes its log line. */
  recordRequest: (request: AnsweredRequest) => void
  keySet: KeySet
  refreshKeys: RefreshKeys
  passwords: Passwords
  sealer: Sealer
  limiter: RateLimiter
  addressOf: ClientAddress
  /** Undefined if MAIL_URL is not set: then users have to ask the operator. */
  mailer: Mailer | undefined
  /** Where mail is written, if pages may say so: where one machine is all there is. */
  mailFolderShown: string | undefined
  afterAnswer: AfterAnswer
  signUp: SignUpSettings
  verifyInvitation: VerifyInvitation
  /** True if some API is trusted with invitations. */
  takesInvitations: boolean
  /** Verifies an access token of this issuer (D5). Throws InvalidToken. */
  verifyAccessToken: (token: string) => Promise<AccessToken>
}
