import type { Signer } from '@platform/runtime/seal'
import type { Core } from './core.ts'
import type { ClusterPorts } from './areas/cluster/deps.ts'
import type { TenancyDeps } from './areas/tenancy/deps.ts'
import type { CredentialsDeps } from './areas/credentials/deps.ts'
import type { AiDeps } from './areas/ai/deps.ts'
import type { StorageDeps } from './areas/storage/deps.ts'
import type { DeployDeps } from './areas/deploy/deps.ts'
import type { ObserveDeps, ObservePorts } from './areas/observe/deps.ts'
import { endpointsOf } from './http/endpoints-of.ts'
import type { CronDispatcher } from './areas/edge/crons/dispatch-runs.ts'
import type { CronQueue } from './areas/edge/crons/queue.ts'
import type { FunctionTimings } from './areas/edge/delivery/call-function.ts'
import type { SiteDirectory } from './areas/edge/delivery/site-directory.ts'
import type { Functions } from './areas/edge/functions/functions.ts'
import type { EdgeWarmer } from './areas/edge/functions/warm-edges.ts'
import type { EncodedContent } from './http/encoded-content.ts'
import type { ImageServer } from './areas/edge/images/images.ts'
import type { IsrPages } from './areas/edge/isr/pages.ts'
import type { IsrTags } from './areas/edge/isr/tags.ts'
import type { StickyTokens } from './areas/edge/sticky-sessions/sticky-token.ts'

/**
 * What requests may use. Only compose.ts builds it; a function asks for the members it needs. A port is declared by the feature
 * that opens it. Such a feature takes explicit types rather than parts of Deps, since it is opened before Deps exists.
 */
export interface Deps
  extends Core, ClusterPorts, TenancyDeps, CredentialsDeps, AiDeps, StorageDeps, DeployDeps, ObserveDeps, ObservePorts {
  /** Crons that are due. */
  cronQueue: CronQueue
  /** Hands runs of crons to edges. */
  crons: CronDispatcher
  /** Signs and verifies sticky URLs. */
  stickyTokens: StickyTokens
  /** Which site answers at which hostname. */
  sites: SiteDirectory
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
  /** Where this process is, as request logs name it, and the header in which trusted proxies report the visitor's country. */
  place: { region: string | undefined; location: string | undefined; countryHeader: string | undefined }
  /** The OpenAPI document, as JSON. */
  document: EncodedContent
  /** The OAuth client for signing in at /docs; undefined: people paste a token. */
  docsClientId: string | undefined
  /** The folder of the clients that can be downloaded; undefined: none can. */
  clientsFolder: string | undefined
  /** The origin of the web console; undefined: there is none. */
  consoleUrl: string | undefined
}

export const { endpoint, openEndpoint } = endpointsOf<Deps>()
