import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isSandboxOfAnother } from '@platform/sandbox/open-sandbox'
import { openBuilder } from '@platform/source-builder/open-builder'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import type { StoragePorts } from '../storage/deps.ts'
import { openArtifactCollector } from './artifacts/collect-artifacts.ts'
import { compressNewArtifacts } from './artifacts/compress-artifacts.ts'
import { removeFiles } from './artifacts/remove-files.ts'
import { discardBuildCaches } from './builds/build-cache.ts'
import { startBuildWorker } from './builds/build-worker.ts'
import { makeOwnFolder } from './builds/own-folder.ts'
import { discardPatternVerdicts } from './builds/pattern-verdicts.ts'
import { openBuildQueue } from './builds/queue.ts'
import { sweepDeployments } from './builds/sweep-deployments.ts'
import { openBuildLogFeed } from './deployments/build-log-feed.ts'
import { discardDeployments } from './deployments/discard-deployments.ts'
import { createPartServer } from './deployments/receive-part.ts'
import { openRetirement } from './deployments/retirement.ts'
import type { Trials } from './deployments/trials.ts'
import { resealDeploymentVariables } from './deployments/variables.ts'
import type { DeployDeps, DeployPorts } from './deps.ts'
import { deployEndpoints } from './endpoints.ts'

/** Interval between sweeps: the longest that a deployment waits after its lease has lapsed. */
const SWEEP_MS = 5_000

interface Options extends Pick<ClusterPorts, 'pgBoss' | 'streamSlots'>, Pick<StoragePorts, 'blobs'> {
  trials: Trials
  heartbeatMs: number | undefined
}

export function openDeploy(
  core: Core,
  config: Pick<
    Config,
    | 'BUILD_EGRESS'
    | 'BUILD_REGISTRIES'
    | 'DEPLOYMENT_RETENTION_DAYS'
    | 'FUNCTION_NETWORK'
    | 'FUNCTIONS_FOLDER'
    | 'HEALTH_PORT'
    | 'MACHINE_ADDRESSES'
  >,
  { pgBoss, streamSlots, blobs, trials, heartbeatMs }: Options,
): Opened<DeployDeps, DeployPorts> {
  const { logger } = core
  const functionsFolder = config.FUNCTIONS_FOLDER ?? join(tmpdir(), `platform-functions-${config.HEALTH_PORT}`)
  const builder = openBuilder({
    folder: join(functionsFolder, 'b'),
    prepare: () => makeOwnFolder(functionsFolder),
    egress: config.BUILD_EGRESS,
    network: config.FUNCTION_NETWORK,
    machineAddresses: config.MACHINE_ADDRESSES,
    registries: config.BUILD_REGISTRIES.map((url) => new URL(url)),
    onWarning: (message, error) => logger.warn({ err: error }, message),
  })
  const buildLogFeed = openBuildLogFeed({ ...core, streamSlots }, heartbeatMs)
  const deps: DeployDeps = {
    ...core,
    blobs,
    buildLogFeed,
    builds: openBuildQueue({ ...core, pgBoss }),
    builder,
    trials,
    partSigner: core.signer('archive part'),
    variableSigner: core.signer('variable digests'),
  }
  return {
    deps,
    endpoints: deployEndpoints,
    ports: { functionsFolder },
    jobs: [
      { name: 'discard the jobs of builds', run: ({ builds }) => builds.discardTaken() },
      { name: 'discard what builds kept', run: discardBuildCaches },
      { name: 'discard the verdicts of unused patterns', run: discardPatternVerdicts },
      { name: 'retire old deployments', run: openRetirement() },
      { name: 'remove the files of retired deployments', run: removeFiles },
      { name: 'collect the files of no deployment', run: openArtifactCollector() },
      { name: 'discard old deployments', run: (on) => discardDeployments(on, config.DEPLOYMENT_RETENTION_DAYS) },
      { name: 'compress the files of deployments', run: compressNewArtifacts },
      { name: 'look after deployments', everyMs: SWEEP_MS, run: sweepDeployments },
    ],
    sealed: [{ name: 'deployments', reseal: resealDeploymentVariables }],
    listeners: [{ on: 'api', prefix: '/files/deployments', listener: createPartServer(deps) }],
    workers: [() => startBuildWorker(deps)],
    streams: { end: () => buildLogFeed.endStreams() },
    async close() {
      await builder.close()
      buildLogFeed.close()
      // What the operator named stays for the next start, as does what another process has under the same port.
      const isOurs = !['s', 'b'].some((name) => isSandboxOfAnother(join(functionsFolder, name)))
      if (config.FUNCTIONS_FOLDER === undefined && isOurs)
        await rm(functionsFolder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
