import { fileURLToPath } from 'node:url'
import { discoverIssuer, ownKeys } from '@platform/auth/issuer-keys'
import { openKeySet } from '@platform/auth/key-set'
import { createTokenVerifier } from '@platform/auth/token-verifier'
import { type GuardedFetch, openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import type { TransformerOptions } from '@platform/image-transformer/image-transformer'
import { createSigner } from '@platform/runtime/seal'
import { discardAuditEvents } from '@platform/service/audit'
import { createDatabasePreparation, type PrepareDatabase } from '@platform/service/prepare-database'
import { createRequestRecord } from '@platform/service/request-record'
import { openResources, type ResourceOverrides } from '@platform/service/service-resources'
import { type Area, bindArea, type Opened } from './area.ts'
import { openAi } from './areas/ai/area.ts'
import { openCluster } from './areas/cluster/area.ts'
import { openCredentials } from './areas/credentials/area.ts'
import { openDeploy } from './areas/deploy/area.ts'
import type { Trials } from './areas/deploy/deployments/trials.ts'
import { openEdge } from './areas/edge/area.ts'
import { openObserve } from './areas/observe/area.ts'
import { openOverview } from './areas/overview/area.ts'
import { openStorage } from './areas/storage/area.ts'
import { openTenancy } from './areas/tenancy/area.ts'
import type { Config } from './config.ts'
import type { Core } from './core.ts'
import { endpoints } from './endpoints.ts'
import { createDocument } from './http/document.ts'
import { encodedContent } from './http/encoded-content.ts'
import { discardIdempotentRequests } from './http/idempotency.ts'

/** What a test may override. */
interface Overrides extends ResourceOverrides {
  /** Interval between heartbeats of streams; their other times are counted in beats. */
  heartbeatMs?: number
  guardedFetch?: GuardedFetch
  imageTransformer?: TransformerOptions
  /** Timeouts of the AI gateway, shortened where a test cannot wait for them. */
  aiTimings?: Parameters<typeof openAi>[2]
}

export const prepareDatabase: PrepareDatabase = createDatabasePreparation(
  'api',
  fileURLToPath(new URL('../migrations', import.meta.url)),
)

/**
 * Opens the core and then the nine areas, lowest first. If one fails to open, those before it are closed; closing runs backwards.
 */
export async function compose(config: Config, { heartbeatMs, ...overrides }: Overrides = {}) {
  await using stack = new AsyncDisposableStack()
  const areas: Area[] = []
  function use<Deps extends Core, Ports extends object>(opened: Opened<Deps, Ports>): Opened<Deps, Ports> {
    if (opened.close) stack.defer(opened.close)
    areas.push(bindArea(opened))
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
    redeemJoined: (...accepted) => tenancy.ports.redeemJoined(...accepted),
  }
  const ofCore = use<Core, object>({
    deps: core,
    endpoints: [],
    ports: {},
    jobs: [
      { name: 'discard idempotent requests', run: discardIdempotentRequests },
      { name: 'discard audit events', run: (deps) => discardAuditEvents(deps, config.AUDIT_RETENTION_DAYS) },
    ],
    sealed: [{ name: 'signingKeys', reseal: () => keySet.reencrypt() }],
    checks: resources.checks,
  })

  const cluster = use(await openCluster(core, config))
  const ofIssuer = {
    userinfoEndpoint: () => idp.endpoint('userinfo_endpoint'),
    invitationEndpoint: () => idp.page('invitation_endpoint'),
  }
  const tenancy = use(await openTenancy(core, config, { ...cluster.ports, ...ofIssuer, heartbeatMs }))
  const credentials = use(openCredentials(core, config))
  const ai = use(await openAi(core, config, overrides.aiTimings))
  const storage = use(await openStorage(core, config))
  const trials: Trials = {
    probe: () => edge.ports.trials.probe(),
    tryOut: (...what) => edge.ports.trials.tryOut(...what),
    warm: (...what) => edge.ports.trials.warm(...what),
  }
  const deploy = use(openDeploy(core, config, { ...cluster.ports, ...storage.ports, trials, heartbeatMs }))
  const observe = use(openObserve(core, config, { ...cluster.ports, heartbeatMs }))
  const { imageTransformer } = overrides
  const below = { ...cluster.ports, ...storage.ports, ...deploy.ports, ...observe.ports }
  const edge = use(openEdge(core, config, { ...below, imageTransformer }))
  /** Made for the first who asks, and kept: answers that are not compressed read it each time. */
  let document: Buffer | undefined
  const overview = use(
    openOverview(core, config, {
      ...storage.ports,
      document: encodedContent(
        async () => (document ??= Buffer.from(JSON.stringify(createDocument(endpoints, publicUrl, idpUrl)))),
      ),
    }),
  )

  const closing = stack.move()
  return {
    deps: {
      core,
      areas,
      /** By name, for the operator's commands: roles do not see it. */
      opened: { core: ofCore, cluster, tenancy, credentials, ai, storage, deploy, observe, edge, overview },
    },
    isReady: resources.isReady,
    checks: {
      ...Object.fromEntries(areas.flatMap(({ checks = {} }) => Object.entries(checks))),
      issuer: { variable: 'IDP_URL', check: () => idp.check() },
    },
    close: () => closing.disposeAsync(),
  }
}
