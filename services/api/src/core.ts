import type { KeySet } from '@platform/auth/key-set'
import type { TokenVerifier } from '@platform/auth/token-verifier'
import type { GuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import type { ClientAddress } from '@platform/ratelimit/client-address'
import type { RateLimiter } from '@platform/ratelimit/rate-limiter'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import type { Sealer, Signer } from '@platform/runtime/seal'
import type { AnsweredRequest } from '@platform/service/request-record'
import type { Trace } from '@platform/service/trace'

/** Called with each user token that is verified for the first time. Returns at once: the profile is fetched in the background. */
export type LearnProfile = (
  userId: string,
  token: string,
  scopes: ReadonlySet<string>,
  trace: Trace | undefined,
) => void

/**
 * Makes the memberships of invitations that a user accepted at the identity provider, by the invitations' ids (D112). An invitation
 * that no longer counts changes nothing. Rejects if the database fails: the next call then tries again.
 */
export type RedeemJoined = (userId: string, invitationIds: readonly string[]) => Promise<void>

/**
 * What every area may use. An area's own deps extend it (`areas/<area>/deps.ts`). Only compose.ts builds it; a function asks for
 * the members it needs.
 */
export interface Core {
  db: Db
  now: () => Date
  logger: Logger
  sealer: Sealer
  /** Makes a signer whose signatures count for one purpose only. */
  signer: (purpose: string) => Signer
  notifications: Notifications
  limiter: RateLimiter
  clientAddress: ClientAddress
  /** Fetches from hosts that tenants name. */
  guardedFetch: GuardedFetch
  tokens: TokenVerifier
  keySet: KeySet
  /** Signs the header by which an edge says whose Function it relays. */
  deploymentAddressSigner: Signer
  /** `{base_url}`: the issuer and audience of key tokens. */
  publicUrl: string
  idpUrl: string
  /** The origin below which applications are served: `{label}.` is prepended to its host. */
  appsUrl: URL
  /** Origins whose pages may read answers. */
  corsOrigins: ReadonlySet<string>
  /** Counts an answered request and writes its log line. */
  recordRequest: (request: AnsweredRequest) => void
  /** Throws InvalidToken if the API key was deleted or has expired. */
  requireLiveKey: (keyId: string) => Promise<void>
  learnProfile: LearnProfile
  redeemJoined: RedeemJoined
}
