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
import type { ActivityFeed } from './features/activity/feed.ts'
import type { AiGateway } from './features/ai-gateway/gateway.ts'
import type { UsageRecorder } from './features/ai-governance/record-usage.ts'
import type { BuildLogFeed } from './features/deployments/build-log-feed.ts'
import type { Builds } from './features/builds/queue.ts'
import type { CronDispatcher } from './features/crons/dispatch-runs.ts'
import type { CronQueue } from './features/crons/queue.ts'
import type { FunctionTimings } from './features/delivery/call-function.ts'
import type { SiteDirectory } from './features/delivery/site-directory.ts'
import type { Membership } from './features/edges/membership.ts'
import type { Functions } from './features/functions/functions.ts'
import type { EdgeWarmer } from './features/functions/warm-edges.ts'
import type { EncodedContent } from './http/encoded-content.ts'
import type { ImageServer } from './features/images/images.ts'
import type { IsrPages } from './features/isr/pages.ts'
import type { IsrTags } from './features/isr/tags.ts'
import type { LearnProfile } from './features/profiles/profiles.ts'
import type { RequestFeed } from './features/request-logs/follow.ts'
import type { RuntimeLogFeed } from './features/runtime-logs/feed.ts'
import type { RuntimeLogWriter } from './features/runtime-logs/write.ts'
import type { RequestLogWriter } from './features/request-logs/write.ts'
import type { Blobs } from './features/storage/blobs.ts'
import type { StickyTokens } from './features/sticky-sessions/sticky-token.ts'
import type { StreamSlots } from './features/streams/stream-slots.ts'
import type { UploadLeases } from './features/uploads/leases.ts'

/** What every actor has. */
interface Reached {
  /** The organization that the request reached something of, once it has; for the log. */
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
  /** When the person last proved who they are; undefined if the token does not say. */
  authenticatedAt: Date | undefined
}

/** An application, through a token that one of its API keys was exchanged for (A §2 API key). */
interface KeyActor extends Reached {
  kind: 'key'
  keyId: string
  applicationId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined where the key itself signed the request. */
  tokenExpiresAt?: Date
}

/** The Functions of a deployment, through a token of the credential that the platform gave it (D9). */
export interface FunctionActor extends Reached {
  kind: 'function'
  /** The credential's client id. */
  keyId: string
  applicationId: string
  deploymentId: string
  /** Of storage and variables it reaches this environment alone. */
  environmentId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined where the credential itself signed the request. */
  tokenExpiresAt?: Date
}

/** What acts as one application: its API keys and its Functions. */
export type ApplicationActor = KeyActor | FunctionActor
export type Actor = UserActor | ApplicationActor

/**
 * What requests may use. compose.ts alone builds it; a function asks for the members it needs. A port is declared by the
 * feature that opens it. Such a file takes explicit types rather than parts of Deps, since it is opened before Deps exists.
 */
export interface Deps {
  db: Db
  now: () => Date
  logger: Logger
  /** Counts each request that was answered and writes its line in the log. */
  recordRequest: (request: AnsweredRequest) => void
  sealer: Sealer
  keySet: KeySet
  tokens: TokenVerifier
  /** Throws InvalidToken for an API key that was deleted or has expired. */
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
  /** Signs the URLs that private objects are read by. */
  accessSigner: Signer
  /** Signs the URLs that parts of archives are sent to. */
  partSigner: Signer
  /** Signs and verifies sticky URLs. */
  stickyTokens: StickyTokens
  /** Makes digests of variables, by which two values can be told apart and neither guessed. */
  variableSigner: Signer
  /** Signs what an edge says of whose Functions it relays requests of. */
  deploymentAddressSigner: Signer
  learnProfile: LearnProfile
  /** Puts a new organization on the plan that the operator gives to all, in the transaction that creates it (D77). */
  startPlan: (db: Db, organizationId: string) => Promise<void>
  clientAddress: ClientAddress
  /** `{base_url}`: the issuer and audience of key tokens. */
  publicUrl: string
  idpUrl: string
  /** The origin that applications are served below: `{label}.` goes in front of its host. */
  appsUrl: URL
  /** What answers at which hostname. */
  sites: SiteDirectory
  /** This process among the edges. */
  membership: Membership
  /** Signs what edges say to each other. */
  edgeSigner: Signer
  /** Runs the Functions of deployments on this machine. */
  functions: Functions
  functionTimings: FunctionTimings
  /** Starts Functions where they will be asked for. */
  edgeWarmer: EdgeWarmer
  /** Makes images of those of deployments. */
  images: ImageServer
  /** Pages of Prerender Functions that were made. */
  isrPages: IsrPages
  /** Tags by which pages and data become outdated. */
  isrTags: IsrTags
  /** Models, and those who run them. */
  ai: AiGateway
  /** Takes note of what calls of models used. */
  usage: UsageRecorder
  /** Asks origins that a deployment's routes lead to. */
  guardedFetch: GuardedFetch
  /** Where this process is, as request logs name it, and the header in which trusted proxies say where a visitor is. */
  place: { region: string | undefined; location: string | undefined; countryHeader: string | undefined }
  /** What hostnames of buckets end in, with the port where it is not the scheme's. */
  objectsDomain: string
  /** The domain of S3, whose buckets are hosts below it, with the port where it is not the scheme's; undefined: none. */
  s3Domain: string | undefined
  /** The region that S3 clients are told. */
  s3Region: string
  /** The OpenAPI document, as JSON. */
  document: EncodedContent
  /** The client that people sign in with at /docs; undefined: they paste a token. */
  docsClientId: string | undefined
  /** Clients that are the console (D6). */
  consoleClientIds: ReadonlySet<string>
  /** Origins that may read answers from a browser. */
  corsOrigins: ReadonlySet<string>
}

/** True if the scopes name it, or name the `:write` of the same resource for a `:read` (D70). */
export function grants(held: ReadonlySet<string>, needed: ApiScope): boolean {
  return held.has(needed) || (needed.endsWith(':read') && held.has(needed.replace(/:read$/, ':write')))
}
