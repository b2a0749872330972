import type { KeySet } from '@platform/auth/key-set'
import type { ApiScope } from '@platform/auth/scopes'
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

/** Common to all actors. */
interface Reached {
  /** The organization whose resource the request reached, once known; for the log. */
  organizationId?: string
}

/** A person, through a token of the identity provider. */
export interface UserActor extends Reached {
  kind: 'user'
  userId: string
  /** The OAuth client that the token was issued to. */
  clientId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token. */
  tokenExpiresAt?: Date
  /** When the person last authenticated; undefined if the token does not say. */
  authenticatedAt: Date | undefined
}

/** An application, through a token obtained with one of its API keys (A §2 API key). */
interface KeyActor extends Reached {
  kind: 'key'
  keyId: string
  applicationId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined if the key itself signed the request. */
  tokenExpiresAt?: Date
}

/** The Functions of a deployment, through a token of the credential that the platform issued to it (D9). */
export interface FunctionActor extends Reached {
  kind: 'function'
  /** The credential's client id. */
  keyId: string
  applicationId: string
  deploymentId: string
  /** Storage and variables of this environment are the only ones it reaches. */
  environmentId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined if the credential itself signed the request. */
  tokenExpiresAt?: Date
}

/** Actors that act as one application: its API keys and its Functions. */
export type ApplicationActor = KeyActor | FunctionActor
export type Actor = UserActor | ApplicationActor

/** True if `held` contains the scope, or the `:write` of the same resource for a `:read` (D70). */
export function grants(held: ReadonlySet<string>, needed: ApiScope): boolean {
  return held.has(needed) || (needed.endsWith(':read') && held.has(needed.replace(/:read$/, ':write')))
}

/** Called with each user token that is verified for the first time. Returns at once: the profile is fetched in the background. */
export type LearnProfile = (
  userId: string,
  token: string,
  scopes: ReadonlySet<string>,
  trace: Trace | undefined,
) => void

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
}
