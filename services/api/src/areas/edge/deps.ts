import type { Signer } from '@platform/runtime/seal'
import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import type { Trials } from '../deploy/deployments/trials.ts'
import type { ObservePorts } from '../observe/deps.ts'
import type { StoragePorts } from '../storage/deps.ts'
import type { CronDispatcher } from './crons/dispatch-runs.ts'
import type { CronQueue } from './crons/queue.ts'
import type { FunctionTimings } from './delivery/call-function.ts'
import type { SiteDirectory } from './delivery/site-directory.ts'
import type { Functions } from './functions/functions.ts'
import type { ImageServer } from './images/images.ts'
import type { IsrPages } from './isr/pages.ts'
import type { IsrTags } from './isr/tags.ts'
import type { StickyTokens } from './sticky-sessions/sticky-token.ts'

export interface EdgeDeps
  extends
    Core,
    Pick<ClusterPorts, 'membership'>,
    Pick<StoragePorts, 'blobs' | 'accessSigner' | 'objectsDomain'>,
    Pick<ObservePorts, 'requestLog'> {
  /** Crons that are due. */
  cronQueue: CronQueue
  /** Hands runs of crons to edges. */
  crons: CronDispatcher
  /** Signs requests between edges. */
  edgeSigner: Signer
  /** Runs the Functions of deployments on this machine. */
  functions: Functions
  functionTimings: FunctionTimings
  /** Resizes and converts images of deployments. */
  images: ImageServer
  /** Stored pages of Prerender Functions. */
  isrPages: IsrPages
  /** Tags by which pages and data are invalidated. */
  isrTags: IsrTags
  /** Where this process is, as request logs name it, and the header in which trusted proxies report the visitor's country. */
  place: { region: string | undefined; location: string | undefined; countryHeader: string | undefined }
  /** Which site answers at which hostname. */
  sites: SiteDirectory
  /** Signs and verifies sticky URLs. */
  stickyTokens: StickyTokens
}

export interface EdgePorts {
  /** For the area of deployments, below this one, which declares it. */
  trials: Trials
}

export const { endpoint } = endpointsOf<EdgeDeps>()
