import { fileURLToPath } from 'node:url'
import { discoverIssuer, ownKeys } from '@platform/auth/issuer-keys'
import { openKeySet } from '@platform/auth/key-set'
import { createTokenVerifier } from '@platform/auth/token-verifier'
import { type GuardedFetch, openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { openImageTransformer, type TransformerOptions } from '@platform/image-transformer/image-transformer'
import { createDatabasePreparation, type PrepareDatabase } from '@platform/service/prepare-database'
import type { Checks } from '@platform/service/dependencies'
import { createRequestRecord } from '@platform/service/request-record'
import { openResources, type ResourceOverrides } from '@platform/service/service-resources'
import { createSigner } from '@platform/runtime/seal'
import type { Config } from './config.ts'
import { openCluster } from './areas/cluster/area.ts'
import { openTenancy } from './areas/tenancy/area.ts'
import { openCredentials } from './areas/credentials/area.ts'
import { openAi } from './areas/ai/area.ts'
import { openStorage } from './areas/storage/area.ts'
import { openDeploy } from './areas/deploy/area.ts'
import { openObserve } from './areas/observe/area.ts'
import type { Trials } from './areas/deploy/deployments/trials.ts'
import type { Core } from './core.ts'
import type { Deps } from './deps.ts'
import { endpoints } from './endpoints.ts'
import { openCronDispatcher } from './areas/edge/crons/dispatch-runs.ts'
import { openCronQueue } from './areas/edge/crons/queue.ts'
import { openSiteDirectory } from './areas/edge/delivery/site-directory.ts'
import { createStickyTokens } from './areas/edge/sticky-sessions/sticky-token.ts'
import { openFunctions } from './areas/edge/functions/open-functions.ts'
import { openEdgeWarmer } from './areas/edge/functions/warm-edges.ts'
import { openImageServer } from './areas/edge/images/image-server.ts'
import { openDataLog } from './areas/edge/isr/data-changes.ts'
import { createDataServer } from './areas/edge/isr/data-server.ts'
import { openIsrPages } from './areas/edge/isr/open-pages.ts'
import { openIsrTags } from './areas/edge/isr/tags.ts'
import { signDeploymentAddress } from './http/deployment-address.ts'
import { createDocument } from './http/document.ts'
import { encodedContent } from './http/encoded-content.ts'

/** What a test may override. */
interface Overrides extends ResourceOverrides {
  /** Interval between heartbeats of streams; their other times are counted in beats. */
  heartbeatMs?: number
  guardedFetch?: GuardedFetch
  imageTransformer?: TransformerOptions
  /** Timeouts of the AI gateway, shortened where a test cannot wait for them. */
  aiTimings?: Parameters<typeof openAi>[2]
}

interface Composed {
  deps: Deps
  /** Resolves to true while the database answers; takes at most a second. */
  isReady(): Promise<boolean>
  checks: Checks
  close(): Promise<void>
}

export const prepareDatabase: PrepareDatabase = createDatabasePreparation(
  'api',
  fileURLToPath(new URL('../migrations', import.meta.url)),
)

/** Opens everything that the roles use. Closing runs backwards. */
export async function compose(config: Config, { heartbeatMs, ...overrides }: Overrides = {}): Promise<Composed> {
  await using stack = new AsyncDisposableStack()
  function use<Open extends { close?: () => Promise<void> }>(opened: Open): Open {
    if (opened.close) stack.defer(opened.close)
    return opened
  }

  const names = { service: 'api', pool: 'platform-api', limiterPrefix: 'api:limit:' }
  const resources = await openResources(config, names, overrides)
  stack.defer(() => resources.close())
  const { now, logger, db, sealer, notifications, limiter, clientAddress } = resources
  const guardedFetch = stack.adopt(overrides.guardedFetch ?? openGuardedFetch(), (opened) => opened.close())
  const keySet = await openKeySet({ db, alg: 'ES256', sealer, now, logger, notifications })
  stack.defer(() => keySet.close())
  const { PUBLIC_URL: publicUrl, IDP_URL: idpUrl } = config
  const idp = discoverIssuer(idpUrl, config.IDP_INTERNAL_URL ?? idpUrl, now)
  const ofUsers = { issuer: idpUrl, audience: publicUrl, alg: 'RS256', keys: idp } as const
  const ofKeys = { issuer: publicUrl, audience: publicUrl, alg: 'ES256', keys: ownKeys(keySet) } as const
  const signer = (purpose: string) => createSigner(config.MASTER_KEYS, purpose)
  const core: Core = {
    db,
    now,
    logger,
    sealer,
    signer,
    notifications,
    limiter,
    clientAddress,
    guardedFetch,
    keySet,
    tokens: createTokenVerifier([ofUsers, ofKeys], now),
    deploymentAddressSigner: signer('deployment address'),
    publicUrl,
    idpUrl,
    appsUrl: new URL(config.APPS_URL ?? `http://localhost:${config.EDGE_PORT}`),
    corsOrigins: new Set([...config.CORS_ORIGINS, ...(config.CONSOLE_URL === undefined ? [] : [config.CONSOLE_URL])]),
    recordRequest: createRequestRecord(logger),
    // Of areas above: they are open before the first request.
    requireLiveKey: (keyId) => credentials.ports.requireLiveKey(keyId),
    learnProfile: (...token) => tenancy.ports.learnProfile(...token),
  }
  const cluster = use(await openCluster(core, config))
  const { membership, pgBoss } = cluster.ports
  const userinfoEndpoint = () => idp.endpoint('userinfo_endpoint')
  const tenancy = use(openTenancy(core, config, { ...cluster.ports, userinfoEndpoint, heartbeatMs }))
  const credentials = use(openCredentials(core, config))
  const ai = use(await openAi(core, config, overrides.aiTimings))
  const storage = use(await openStorage(core, config))
  const { blobs } = storage.ports
  const trials: Trials = {
    probe: () => functions.probe(),
    tryOut: (...what) => functions.tryOut(...what),
    warm: (...what) => edgeWarmer.warm(...what),
  }
  const deploy = use(openDeploy(core, config, { ...cluster.ports, ...storage.ports, trials, heartbeatMs }))
  const { functionsFolder } = deploy.ports
  const observe = use(openObserve(core, { ...cluster.ports, heartbeatMs }))
  const { runtimeLog } = observe.ports
  const cronQueue = openCronQueue({ db, pgBoss, notifications })
  const edgeSigner = signer('edge messages')
  const crons = openCronDispatcher({ db, logger, now, signer: edgeSigner })
  const sites = openSiteDirectory({ db, notifications })
  const isrTags = openIsrTags({ db, notifications })
  const dataLog = openDataLog({ db, notifications, tags: isrTags })
  const functions = openFunctions({
    processId: membership.id,
    db,
    blobs,
    sealer,
    now,
    logger,
    runtimeLog,
    appsUrl: core.appsUrl,
    region: config.EDGE_REGION,
    apiUrl: config.API_INTERNAL_URL ?? config.PUBLIC_URL,
    signDeployment: (deploymentId) => signDeploymentAddress(core.deploymentAddressSigner, deploymentId),
    onCache: createDataServer({ db, logger, tags: isrTags, log: dataLog }),
    sandbox: {
      mode: config.FUNCTION_SANDBOX,
      egress: config.FUNCTION_EGRESS,
      egressAllow: config.FUNCTION_EGRESS_ALLOW,
      network: config.FUNCTION_NETWORK,
      machineAddresses: config.MACHINE_ADDRESSES,
    },
    folder: functionsFolder,
  })
  const edgeWarmer = openEdgeWarmer({ db, notifications, membership, functions, logger })
  const transformer = openImageTransformer(overrides.imageTransformer)
  const images = openImageServer({ db, now, blobs, logger, guardedFetch, notifications, transformer })
  const isrPages = openIsrPages({ db, now, blobs, logger, notifications, tags: isrTags })
  /** Made for the first who asks, and kept: answers that are not compressed read it each time. */
  let document: Buffer | undefined
  stack.defer(async () => {
    await crons.close()
    await functions.close(0)
    images.close()
  })
  const closing = stack.move()
  return {
    deps: {
      ...core,
      ...cluster.ports,
      ...tenancy.deps,
      ...credentials.deps,
      ...ai.deps,
      ...storage.deps,
      ...deploy.deps,
      ...observe.ports,
      ...observe.deps,
      cronQueue,
      crons,
      sites,
      edgeSigner,
      functions,
      edgeWarmer,
      stickyTokens: createStickyTokens(signer('sticky url')),
      functionTimings: { firstByteMs: config.FUNCTION_FIRST_BYTE_MS, silentMs: config.FUNCTION_SILENT_MS },
      images,
      isrPages,
      isrTags,
      place: {
        region: config.EDGE_REGION,
        location: config.EDGE_LOCATION,
        countryHeader: config.COUNTRY_HEADER,
      },
      consoleUrl: config.CONSOLE_URL,
      document: encodedContent(
        async () => (document ??= Buffer.from(JSON.stringify(createDocument(endpoints, publicUrl, idpUrl)))),
      ),
      docsClientId: config.DOCS_CLIENT_ID,
      clientsFolder: config.CLIENTS_FOLDER,
    },
    isReady: resources.isReady,
    checks: {
      ...resources.checks,
      ...storage.checks,
      issuer: { variable: 'IDP_URL', check: () => idp.check() },
    },
    close: () => closing.disposeAsync(),
  }
}
