import type { ApiScope } from '@platform/auth/scopes'
import type { KeySet } from '@platform/auth/key-set'
import type { TokenVerifier } from '@platform/auth/token-verifier'
import type { ClientAddress } from '@platform/ratelimit/client-address'
import type { RateLimiter } from '@platform/ratelimit/rate-limiter'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Sealer, Signer } from '@platform/runtime/seal'
import type { AnsweredRequest } from '@platform/service/request-record'
import type { Trace } from '@platform/service/trace'
import type { RequestLogWriter } from './features/request-logs/write.ts'
import type { Blobs } from './features/storage/blobs.ts'

/** The streams of what is done to applications. */
export interface ActivityFeed {
  /**
   * Opens a stream of what is done to an application, after activity number `after`. requireAuthority: called every minute;
   * an ApiError below 500 ends the stream. Throws TooManyStreams (A §6), and Unavailable once the process is stopping.
   */
  watch(
    applicationId: string,
    after: number,
    requireAuthority: () => Promise<unknown>,
  ): Promise<ReadableStream<Uint8Array>>
  /** Ends every stream, telling clients when to come back. */
  endStreams(): void
}

/** The cap on open streams, over all processes. */
export interface StreamSlots {
  /**
   * Takes one of the slots of a resource, such as `activity:<application id>`. Returns what gives it back; safe to repeat.
   * Throws TooManyStreams when all are taken, Unavailable after `refuseNew`.
   */
  take(resource: string): Promise<() => void>
  /** From now on no stream opens in this process: it is stopping. */
  refuseNew(): void
}

/** The right of one request to append to an upload. */
export interface Lease {
  /** What every append is checked against. */
  holder: string
  /** Aborted when somebody else wants the upload: put away what was received, and let go. */
  wanted: AbortSignal
  release(): Promise<void>
}

export interface UploadLeases {
  /** Takes an upload over, in a second at most, from whoever has it. */
  take(uploadId: string): Promise<Lease>
}

/** A person, through a token of the identity provider. */
export interface UserActor {
  kind: 'user'
  userId: string
  /** The OAuth client that the token was issued to. */
  clientId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token. */
  tokenExpiresAt?: Date
  /** When the person last proved who they are; undefined if the token does not say. */
  authenticatedAt: Date | undefined
}

/** An application, through a token that one of its API keys was exchanged for (A §2 API key). */
export interface KeyActor {
  kind: 'key'
  keyId: string
  applicationId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined where the key itself signed the request. */
  tokenExpiresAt?: Date
}

export type Actor = UserActor | KeyActor

/** What requests may use. compose.ts alone builds it; a function asks for the members it needs. */
export interface Deps {
  db: Db
  now: () => Date
  logger: Logger
  /** Counts each request that was answered and writes its line in the log. */
  recordRequest: (request: AnsweredRequest) => void
  sealer: Sealer
  keySet: KeySet
  tokens: TokenVerifier
  limiter: RateLimiter
  activityFeed: ActivityFeed
  streamSlots: StreamSlots
  requestLog: RequestLogWriter
  blobs: Blobs
  uploadLeases: UploadLeases
  /** Of URLs that objects are read by. */
  accessSigner: Signer
  /** Told of each user token that is seen for the first time; never in the way of the request. */
  learnProfile: (userId: string, token: string, scopes: ReadonlySet<string>, trace: Trace | undefined) => void
  clientAddress: ClientAddress
  /** `{base_url}`: the issuer and audience of key tokens. */
  publicUrl: string
  idpUrl: string
  /** What hostnames of applications end in, with the port where it is not the scheme's. */
  appsDomain: string
  /** What hostnames of buckets end in, with the port where it is not the scheme's. */
  objectsDomain: string
  /** What S3 has for its own, with the port where it is not the scheme's; buckets are hosts below it. */
  s3Domain: string | undefined
  /** The region that S3 clients are told. */
  s3Region: string
  /** The OpenAPI document, as text. */
  document: string
  /** Clients that are the console (D6). */
  consoleClientIds: ReadonlySet<string>
  /** Origins that may read answers from a browser. */
  corsOrigins: ReadonlySet<string>
}

/** True if the scopes name it, or name the `:write` of the same resource for a `:read` (D70). */
export function grants(held: ReadonlySet<string>, needed: ApiScope): boolean {
  return held.has(needed) || (needed.endsWith(':read') && held.has(needed.replace(/:read$/, ':write')))
}
