import { openImageTransformer, type TransformerOptions } from '@platform/image-transformer/image-transformer'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import { signDeploymentAddress } from '../../http/deployment-address.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import type { DeployPorts } from '../deploy/deps.ts'
import type { ObservePorts } from '../observe/deps.ts'
import type { StoragePorts } from '../storage/deps.ts'
import { startCronWorker } from './crons/cron-worker.ts'
import { openCronDispatcher } from './crons/dispatch-runs.ts'
import { openCronQueue } from './crons/queue.ts'
import { discardCronRuns, sweepCronRuns } from './crons/runs.ts'
import { openSiteDirectory } from './delivery/site-directory.ts'
import type { EdgeDeps, EdgePorts } from './deps.ts'
import { edgeEndpoints } from './endpoints.ts'
import { openFunctions } from './functions/open-functions.ts'
import { discardLostSlots } from './functions/record-usage.ts'
import { reportWalls } from './functions/report-walls.ts'
import { openEdgeWarmer } from './functions/warm-edges.ts'
import { openImageServer } from './images/image-server.ts'
import { keepImageCaches } from './images/keep-image-caches.ts'
import { openDataLog } from './isr/data-changes.ts'
import { createDataServer } from './isr/data-server.ts'
import { discardData } from './isr/discard-data.ts'
import { discardPages } from './isr/discard-pages.ts'
import { openIsrPages } from './isr/open-pages.ts'
import { openIsrTags } from './isr/tags.ts'
import { serveHostnames } from './serve-hostnames.ts'
import { discardExpiredPins } from './sticky-sessions/discard-pins.ts'
import { createStickyTokens } from './sticky-sessions/sticky-token.ts'

const SWEEP_MS = 5_000

interface Options
  extends
    Pick<ClusterPorts, 'membership' | 'pgBoss'>,
    Pick<StoragePorts, 'accessSigner' | 'blobs' | 'objectsDomain'>,
    DeployPorts,
    ObservePorts {
  imageTransformer: TransformerOptions | undefined
}

export function openEdge(
  core: Core,
  config: Pick<
    Config,
    | 'API_INTERNAL_URL'
    | 'COUNTRY_HEADER'
    | 'EDGE_LOCATION'
    | 'EDGE_REGION'
    | 'FUNCTION_EGRESS'
    | 'FUNCTION_EGRESS_ALLOW'
    | 'FUNCTION_FIRST_BYTE_MS'
    | 'FUNCTION_NETWORK'
    | 'FUNCTION_SANDBOX'
    | 'FUNCTION_SILENT_MS'
    | 'MACHINE_ADDRESSES'
    | 'PUBLIC_URL'
  >,
  options: Options,
): Opened<EdgeDeps, EdgePorts> {
  const { membership, pgBoss, accessSigner, blobs, objectsDomain, functionsFolder, requestLog, runtimeLog } = options
  const { db, logger, now } = core
  const edgeSigner = core.signer('edge messages')
  const isrTags = openIsrTags(core)
  const log = openDataLog({ ...core, tags: isrTags })
  const functions = openFunctions({
    ...core,
    processId: membership.id,
    blobs,
    runtimeLog,
    region: config.EDGE_REGION,
    apiUrl: config.API_INTERNAL_URL ?? config.PUBLIC_URL,
    signDeployment: (deploymentId) => signDeploymentAddress(core.deploymentAddressSigner, deploymentId),
    onCache: createDataServer({ db, logger, tags: isrTags, log }),
    sandbox: {
      mode: config.FUNCTION_SANDBOX,
      egress: config.FUNCTION_EGRESS,
      egressAllow: config.FUNCTION_EGRESS_ALLOW,
      network: config.FUNCTION_NETWORK,
      machineAddresses: config.MACHINE_ADDRESSES,
    },
    folder: functionsFolder,
  })
  const warmer = openEdgeWarmer({ ...core, membership, functions })
  const images = openImageServer({ ...core, blobs, transformer: openImageTransformer(options.imageTransformer) })
  const crons = openCronDispatcher({ db, logger, now, signer: edgeSigner })
  const deps: EdgeDeps = {
    ...core,
    membership,
    blobs,
    accessSigner,
    objectsDomain,
    requestLog,
    cronQueue: openCronQueue({ ...core, pgBoss }),
    crons,
    edgeSigner,
    functions,
    functionTimings: { firstByteMs: config.FUNCTION_FIRST_BYTE_MS, silentMs: config.FUNCTION_SILENT_MS },
    images,
    isrPages: openIsrPages({ ...core, blobs, tags: isrTags }),
    isrTags,
    place: {
      region: config.EDGE_REGION,
      location: config.EDGE_LOCATION,
      countryHeader: config.COUNTRY_HEADER,
    },
    sites: openSiteDirectory(core),
    stickyTokens: createStickyTokens(core.signer('sticky url')),
  }
  return {
    deps,
    endpoints: edgeEndpoints,
    ports: {
      trials: {
        probe: () => functions.probe(),
        tryOut: (deploymentId, path, how) => functions.tryOut(deploymentId, path, how),
        warm: (change, limitMs) => warmer.warm(change, limitMs),
      },
    },
    jobs: [
      { name: 'discard the slots of killed edges', run: discardLostSlots },
      { name: 'discard the pins of expired sticky URLs', run: discardExpiredPins },
      { name: 'discard the jobs of crons', run: ({ cronQueue }) => cronQueue.discardTaken() },
      { name: 'discard the runs of crons', run: discardCronRuns },
      { name: 'keep image caches within their quotas', run: keepImageCaches },
      { name: 'discard the pages of retired deployments', run: discardPages },
      { name: 'discard the data of retired deployments', run: discardData },
      { name: 'end the cron runs of killed edges', everyMs: SWEEP_MS, run: sweepCronRuns },
    ],
    listeners: [{ on: 'hostnames', start: (address) => serveHostnames(deps, address) }],
    workers: [() => startCronWorker(deps)],
    report: () => reportWalls(deps),
    async close() {
      await crons.close()
      await functions.close(0)
      images.close()
    },
  }
}
