import type { ApiScope } from '@platform/auth/scopes'
import type { KeySet } from '@platform/auth/key-set'
import type { TokenVerifier } from '@platform/auth/token-verifier'
import type { ClientAddress } from '@platform/ratelimit/client-address'
import type { RateLimiter } from '@platform/ratelimit/rate-limiter'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Sealer, Signer } from '@platform/runtime/seal'
import type { Builder } from '@platform/source-builder/builder'
import type { GuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import type { AnsweredRequest } from '@platform/service/request-record'
import type { ActivityFeed } from './areas/tenancy/activity/feed.ts'
import type { AiGateway } from './areas/ai/gateway/gateway.ts'
import type { UsageRecorder } from './areas/ai/governance/record-usage.ts'
import type { BuildLogFeed } from './areas/deploy/deployments/build-log-feed.ts'
import type { Builds } from './areas/deploy/builds/queue.ts'
import type { CronDispatcher } from './areas/edge/crons/dispatch-runs.ts'
import type { CronQueue } from './areas/edge/crons/queue.ts'
import type { FunctionTimings } from './areas/edge/delivery/call-function.ts'
import type { SiteDirectory } from './areas/edge/delivery/site-directory.ts'
import type { Membership } from './areas/cluster/edges/membership.ts'
import type { Functions } from './areas/edge/functions/functions.ts'
import type { EdgeWarmer } from './areas/edge/functions/warm-edges.ts'
import type { EncodedContent } from './http/encoded-content.ts'
import type { ImageServer } from './areas/edge/images/images.ts'
import type { IsrPages } from './areas/edge/isr/pages.ts'
import type { IsrTags } from './areas/edge/isr/tags.ts'
import type { LearnProfile } from './areas/tenancy/profiles/profiles.ts'
import type { RequestFeed } from './areas/observe/request-logs/follow.ts'
import type { RuntimeLogFeed } from './areas/observe/runtime-logs/feed.ts'
import type { RuntimeLogWriter } from './areas/observe/runtime-logs/write.ts'
import type { RequestLogWriter } from './areas/observe/request-logs/write.ts'
import type { Blobs } from './areas/storage/objects/blobs.ts'
import type { StickyTokens } from './areas/edge/sticky-sessions/sticky-token.ts'
import type { StreamSlots } from './areas/cluster/streams/stream-slots.ts'
import type { UploadLeases } from './areas/storage/uploads/leases.ts'

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

/**
 * What requests may use. Only compose.ts builds it; a function asks for the members it needs. A port is declared by the feature
 * that opens it. Such a feature takes explicit types rather than parts of Deps, since it is opened before Deps exists.
 */
export interface Deps {
  db: Db
  now: () => Date
  logger: Logger
  /** Counts an answered request and writes its log line. */
  recordRequest: (request: AnsweredRequest) => void
  sealer: Sealer
  keySet: KeySet
  tokens: TokenVerifier
  /** Throws InvalidToken if the API key was deleted or has expired. */
  requireLiveKey: (keyId: string) => Promise<void>
  limiter: RateLimiter
  activityFeed: ActivityFeed
  buildLogFeed: BuildLogFeed
  requestFeed: RequestFeed
  runtimeLogFeed: RuntimeLogFeed
  streamSlots: StreamSlots
  requestLog: RequestLogWriter
  runtimeLog: RuntimeLogWriter
  blobs: Blobs
  builds: Builds
  /** Crons that are due. */
  cronQueue: CronQueue
  /** Hands runs of crons to edges. */
  crons: CronDispatcher
  /** Builds source on this machine. */
  builder: Builder
  uploadLeases: UploadLeases
  /** Signs the URLs by which private objects are read. */
  accessSigner: Signer
  /** Signs the URLs that parts of archives are uploaded to. */
  partSigner: Signer
  /** Signs and verifies sticky URLs. */
  stickyTokens: StickyTokens
  /** Computes keyed digests of variables: they show whether two values differ without revealing either. */
  variableSigner: Signer
  /** Signs the header by which an edge says whose Function it relays. */
  deploymentAddressSigner: Signer
  learnProfile: LearnProfile
  /** Puts a new organization on the operator's default plan, in the transaction that creates it (D77). */
  startPlan: (db: Db, organizationId: string) => Promise<void>
  clientAddress: ClientAddress
  /** `{base_url}`: the issuer and audience of key tokens. */
  publicUrl: string
  idpUrl: string
  /** The origin below which applications are served: `{label}.` is prepended to its host. */
  appsUrl: URL
  /** Which site answers at which hostname. */
  sites: SiteDirectory
  /** This process's membership among the edges. */
  membership: Membership
  /** Signs requests between edges. */
  edgeSigner: Signer
  /** Runs the Functions of deployments on this machine. */
  functions: Functions
  functionTimings: FunctionTimings
  /** Starts Functions on the edges where they will be needed. */
  edgeWarmer: EdgeWarmer
  /** Resizes and converts images of deployments. */
  images: ImageServer
  /** Stored pages of Prerender Functions. */
  isrPages: IsrPages
  /** Tags by which pages and data are invalidated. */
  isrTags: IsrTags
  /** Models and their providers. */
  ai: AiGateway
  /** Records the usage of model calls. */
  usage: UsageRecorder
  /** Fetches from origins that a deployment's routes rewrite to. */
  guardedFetch: GuardedFetch
  /** Where this process is, as request logs name it, and the header in which trusted proxies report the visitor's country. */
  place: { region: string | undefined; location: string | undefined; countryHeader: string | undefined }
  /** The domain suffix of buckets' hostnames, with the port if it is not the scheme's default. */
  objectsDomain: string
  /** The domain below which S3 serves buckets as hosts, with the port if it is not the scheme's default; undefined: none. */
  s3Domain: string | undefined
  /** The region that S3 clients are given. */
  s3Region: string
  /** The OpenAPI document, as JSON. */
  document: EncodedContent
  /** The OAuth client for signing in at /docs; undefined: people paste a token. */
  docsClientId: string | undefined
  /** The folder of the clients that can be downloaded; undefined: none can. */
  clientsFolder: string | undefined
  /** The origin of the web console; undefined: there is none. */
  consoleUrl: string | undefined
  /** OAuth clients that count as the console (D6). */
  consoleClientIds: ReadonlySet<string>
  /** Origins whose pages may read answers. */
  corsOrigins: ReadonlySet<string>
}

/** True if `held` contains the scope, or the `:write` of the same resource for a `:read` (D70). */
export function grants(held: ReadonlySet<string>, needed: ApiScope): boolean {
  return held.has(needed) || (needed.endsWith(':read') && held.has(needed.replace(/:read$/, ':write')))
}
