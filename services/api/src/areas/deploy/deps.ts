import type { Signer } from '@platform/runtime/seal'
import type { Builder } from '@platform/source-builder/builder'
import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { StoragePorts } from '../storage/deps.ts'
import type { Builds } from './builds/queue.ts'
import type { BuildLogFeed } from './deployments/build-log-feed.ts'
import type { Trials } from './deployments/trials.ts'

export interface DeployDeps extends Core, Pick<StoragePorts, 'blobs'> {
  buildLogFeed: BuildLogFeed
  builds: Builds
  /** Builds source on this machine. */
  builder: Builder
  /** Starts Functions before they are needed. */
  trials: Trials
  /** Signs the URLs that parts of archives are uploaded to. */
  partSigner: Signer
  /** Computes keyed digests of variables: they show whether two values differ without revealing either. */
  variableSigner: Signer
}

export interface DeployPorts {
  /** An absolute folder of this process for the files and sockets of Functions and builds. */
  functionsFolder: string
}

export const { endpoint } = endpointsOf<DeployDeps>()
