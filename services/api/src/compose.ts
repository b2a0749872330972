import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { discoverIssuer, ownKeys } from '@platform/auth/issuer-keys'
import { openKeySet } from '@platform/auth/key-set'
import { createTokenVerifier } from '@platform/auth/token-verifier'
import { type GuardedFetch, openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { openImageTransformer, type TransformerOptions } from '@platform/image-transformer/image-transformer'
import { ConfigError } from '@platform/runtime/config'
import { createDatabasePreparation, type PrepareDatabase } from '@platform/service/prepare-database'
import type { Checks } from '@platform/service/dependencies'
import { createRequestRecord } from '@platform/service/request-record'
import { openResources, type ResourceOverrides } from '@platform/service/service-resources'
import { newId } from '@platform/runtime/new-id'
import { isSandboxOfAnother } from '@platform/sandbox/open-sandbox'
import { createSigner } from '@platform/runtime/seal'
import { openBuilder } from '@platform/source-builder/open-builder'
import type { Config } from './config.ts'
import type { Deps } from './deps.ts'
import { openBlobs } from './areas/storage/drivers/open-blobs.ts'
import { endpoints } from './endpoints.ts'
import { requireLiveKey } from './areas/credentials/api-keys/reach.ts'
import { openBuildQueue } from './areas/deploy/builds/queue.ts'
import { openCronDispatcher } from './areas/edge/crons/dispatch-runs.ts'
import { openCronQueue } from './areas/edge/crons/queue.ts'
import { WrongProviderFile } from './areas/ai/gateway/providers/provider-file.ts'
import { openAiGateway } from './areas/ai/gateway/gateway.ts'
import type { AiTimings } from './areas/ai/gateway/providers/timings.ts'
import { openUsageRecorder } from './areas/ai/governance/record-usage.ts'
import { openActivityFeed } from './areas/tenancy/activity/feed.ts'
import { openBuildLogFeed } from './areas/deploy/deployments/build-log-feed.ts'
import { openSiteDirectory } from './areas/edge/delivery/site-directory.ts'
import { openMembership } from './areas/cluster/edges/membership.ts'
import { createStickyTokens } from './areas/edge/sticky-sessions/sticky-token.ts'
import { openStreamSlots } from './areas/cluster/streams/stream-slots.ts'
import { openBoss } from './areas/cluster/queues/boss.ts'
import { openRequestFeed } from './areas/observe/request-logs/follow.ts'
import { openRequestLog } from './areas/observe/request-logs/write.ts'
import { openFunctions } from './areas/edge/functions/open-functions.ts'
import { openEdgeWarmer } from './areas/edge/functions/warm-edges.ts'
import { makeOwnFolder } from './areas/edge/functions/own-folder.ts'
import { openImageServer } from './areas/edge/images/image-server.ts'
import { openDataLog } from './areas/edge/isr/data-changes.ts'
import { createDataServer } from './areas/edge/isr/data-server.ts'
import { openIsrPages } from './areas/edge/isr/open-pages.ts'
import { openIsrTags } from './areas/edge/isr/tags.ts'
import { openRuntimeLogFeed } from './areas/observe/runtime-logs/feed.ts'
import { openRuntimeLog } from './areas/observe/runtime-logs/write.ts'
import { signDeploymentAddress } from './http/deployment-address.ts'
import { openLeases } from './areas/storage/uploads/leases.ts'
import { activatePlan } from './areas/tenancy/products/products.ts'
import { createProfileLearner } from './areas/tenancy/profiles/profiles.ts'
import { createDocument } from './http/document.ts'
import { encodedContent } from './http/encoded-content.ts'

/** What a test may override. */
interface Overrides extends ResourceOverrides {
  /** Interval between heartbeats of streams; their other times are counted in beats. */
  heartbeatMs?: number
  guardedFetch?: GuardedFetch
  imageTransformer?: TransformerOptions
  /** Timeouts of the AI gateway, shortened where a test cannot wait for them. */
  aiTimings?: Partial<AiTimings>
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

/** Builds everything the roles use from the configuration. The only place that knows which driver is behind which interface. */
export async function compose(config: Config, overrides: Overrides = {}): Promise<Composed> {
  const resources = await openResources(
    config,
    { service: 'api', pool: 'platform-api', limiterPrefix: 'api:limit:' },
    overrides,
  )
  const { now, logger, db, sealer, notifications, limiter } = resources
  const keySet = await openKeySet({ db, alg: 'ES256', sealer, now, logger, notifications })
  const blobs = await openBlobs(config.OBJECTS_URL)
  const streamSlots = openStreamSlots({ db, now, logger })
  const activityFeed = openActivityFeed({ db, logger, streamSlots, notifications }, overrides.heartbeatMs)
  const buildLogFeed = openBuildLogFeed({ db, logger, streamSlots, notifications }, overrides.heartbeatMs)
  const requestFeed = openRequestFeed({ db, logger, streamSlots, notifications }, overrides.heartbeatMs)
  const runtimeLogFeed = openRuntimeLogFeed({ db, logger, streamSlots, notifications }, overrides.heartbeatMs)
  const requestLog = openRequestLog({ db, logger })
  const runtimeLog = openRuntimeLog({ db, logger })
  const pgBoss = await openBoss({ db, databaseUrl: config.DATABASE_URL, logger })
  const builds = openBuildQueue({ pgBoss, notifications })
  const cronQueue = openCronQueue({ db, pgBoss, notifications })
  const edgeSigner = createSigner(config.MASTER_KEYS, 'edge messages')
  const crons = openCronDispatcher({ db, logger, now, signer: edgeSigner })
  const sites = openSiteDirectory({ db, notifications })
  const appsUrl = new URL(config.APPS_URL ?? `http://localhost:${config.EDGE_PORT}`)
  const deploymentAddressSigner = createSigner(config.MASTER_KEYS, 'deployment address')
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
  const processId = newId()
  const membership = openMembership({ db, logger, id: processId })
  const isrTags = openIsrTags({ db, notifications })
  const dataLog = openDataLog({ db, notifications, tags: isrTags })
  const functions = openFunctions({
    processId,
    db,
    blobs,
    sealer,
    now,
    logger,
    runtimeLog,
    appsUrl,
    region: config.EDGE_REGION,
    apiUrl: config.API_INTERNAL_URL ?? config.PUBLIC_URL,
    signDeployment: (deploymentId) => signDeploymentAddress(deploymentAddressSigner, deploymentId),
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
  const guardedFetch = overrides.guardedFetch ?? openGuardedFetch()
  const transformer = openImageTransformer(overrides.imageTransformer)
  const images = openImageServer({ db, now, blobs, logger, guardedFetch, notifications, transformer })
  const isrPages = openIsrPages({ db, now, blobs, logger, notifications, tags: isrTags })
  const ai = await openAiGateway({
    path: config.AI_PROVIDERS,
    readVariable: config.readVariable,
    logger,
    now,
    timings: overrides.aiTimings,
  }).catch((error: unknown) => {
    throw error instanceof WrongProviderFile ? new ConfigError(`AI_PROVIDERS: ${error.message}`) : error
  })
  const usage = openUsageRecorder({ db, logger })
  const uploadLeases = openLeases({ db, notifications })
  const { PUBLIC_URL: publicUrl, IDP_URL: idpUrl } = config
  /** Made for the first who asks, and kept: answers that are not compressed read it each time. */
  let document: Buffer | undefined
  const idp = discoverIssuer(idpUrl, config.IDP_INTERNAL_URL ?? idpUrl, now)
  const tokens = createTokenVerifier(
    [
      {
        issuer: idpUrl,
        audience: publicUrl,
        alg: 'RS256',
        keys: idp,
      },
      { issuer: publicUrl, audience: publicUrl, alg: 'ES256', keys: ownKeys(keySet) },
    ],
    now,
  )
  return {
    deps: {
      db,
      now,
      logger,
      recordRequest: createRequestRecord(logger),
      sealer,
      signer: (purpose) => createSigner(config.MASTER_KEYS, purpose),
      notifications,
      keySet,
      tokens,
      requireLiveKey: (keyId) => requireLiveKey({ db, now }, keyId),
      limiter,
      activityFeed,
      buildLogFeed,
      requestFeed,
      runtimeLogFeed,
      streamSlots,
      requestLog,
      runtimeLog,
      blobs,
      builds,
      cronQueue,
      crons,
      builder,
      uploadLeases,
      accessSigner: createSigner(config.MASTER_KEYS, 'object access'),
      partSigner: createSigner(config.MASTER_KEYS, 'archive part'),
      stickyTokens: createStickyTokens(createSigner(config.MASTER_KEYS, 'sticky url')),
      variableSigner: createSigner(config.MASTER_KEYS, 'variable digests'),
      deploymentAddressSigner,
      learnProfile: createProfileLearner({
        db,
        now,
        logger,
        userinfoEndpoint: () => idp.endpoint('userinfo_endpoint'),
      }),
      async startPlan(tx, organizationId) {
        // An organization without a subscription is on the free plan.
        if (config.DEFAULT_PLAN !== 'free')
          await activatePlan({ db: tx, now }, organizationId, 'network', config.DEFAULT_PLAN)
      },
      clientAddress: resources.clientAddress,
      publicUrl,
      idpUrl,
      appsUrl,
      sites,
      membership,
      edgeSigner,
      functions,
      edgeWarmer,
      functionTimings: { firstByteMs: config.FUNCTION_FIRST_BYTE_MS, silentMs: config.FUNCTION_SILENT_MS },
      ai,
      usage,
      guardedFetch,
      images,
      isrPages,
      isrTags,
      place: {
        region: config.EDGE_REGION,
        location: config.EDGE_LOCATION,
        countryHeader: config.COUNTRY_HEADER,
      },
      objectsDomain: config.OBJECTS_DOMAIN ?? `objects.localhost:${config.EDGE_PORT}`,
      s3Domain: config.S3_DOMAIN,
      s3Region: config.S3_REGION,
      consoleUrl: config.CONSOLE_URL,
      consoleClientIds: new Set(config.CONSOLE_CLIENT_IDS),
      corsOrigins: new Set([...config.CORS_ORIGINS, ...(config.CONSOLE_URL === undefined ? [] : [config.CONSOLE_URL])]),
      document: encodedContent(
        async () => (document ??= Buffer.from(JSON.stringify(createDocument(endpoints, publicUrl, idpUrl)))),
      ),
      docsClientId: config.DOCS_CLIENT_ID,
      clientsFolder: config.CLIENTS_FOLDER,
    },
    isReady: resources.isReady,
    checks: {
      ...resources.checks,
      objects: { variable: 'OBJECTS_URL', check: () => blobs.check() },
      issuer: { variable: 'IDP_URL', check: () => idp.check() },
    },
    async close() {
      keySet.close()
      await pgBoss.close()
      await crons.close()
      await builder.close()
      await membership.leave()
      await functions.close(0)
      images.close()
      await requestLog.close()
      await runtimeLog.close()
      await usage.close()
      await ai.close()
      activityFeed.close()
      buildLogFeed.close()
      requestFeed.close()
      runtimeLogFeed.close()
      await streamSlots.close()
      await guardedFetch.close()
      blobs.close()
      await resources.close()
      // What the operator named stays for the next start, as does what another process has under the same port.
      const isOurs = !['s', 'b'].some((name) => isSandboxOfAnother(join(functionsFolder, name)))
      if (config.FUNCTIONS_FOLDER === undefined && isOurs)
        await rm(functionsFolder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
