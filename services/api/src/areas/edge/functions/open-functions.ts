import { join } from 'node:path'
import { Unavailable } from '@platform/errors/api-error'
import {
  FunctionFailure,
  type FunctionLogLine,
  type FunctionRuntime,
  type FunctionSource,
  type FunctionUsage,
} from '@platform/function-runtime/function-runtime'
import { openFunctionRuntime } from '@platform/function-runtime/open-function-runtime'
import type { Db } from '@platform/runtime/database'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Logger } from '@platform/runtime/logger'
import { CUT_MARK } from '@platform/runtime/storable-text'
import type { Sealer } from '@platform/runtime/seal'
import { openSandbox, type SandboxOptions } from '@platform/sandbox/open-sandbox'
import type { Sandbox } from '@platform/sandbox/sandbox'
import { and, eq, inArray, isNotNull, or, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { applications, environments } from '../../tenancy/applications/table.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import { platformVariables } from '../../deploy/deployments/platform-variables.ts'
import { createRedaction, type Redactor } from '../../deploy/deployments/redact.ts'
import { deploymentFunctions, deployments } from '../../deploy/deployments/table.ts'
import { openDeploymentSecrets, openDeploymentVariables } from '../../deploy/deployments/variables.ts'
import { quotasOf } from '../../tenancy/products/quotas.ts'
import type { RuntimeLogWriter } from '../../observe/runtime-logs/write.ts'
import type { Blobs } from '../../storage/objects/blobs.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'
import type { PrintedLine } from '../../deploy/deployments/trials.ts'
import type { Functions } from './functions.ts'
import { openFunctionFolders } from './function-folders.ts'
import { makeOwnFolder } from '../../deploy/builds/own-folder.ts'
import { type DeploymentListener, openPlatformFolders } from './platform-folders.ts'
import { openApiRelay } from './relay-to-api.ts'
import { recordFunctionUsage } from './record-usage.ts'

const FLUSH_MS = 5_000
const KNOWN_MAX = 10_000
/** Pause before isolation that failed to open is retried: a retry starts programs, too costly for each request. */
const REOPEN_MS = 5_000
/** By then a loaded slot is ready or has failed; afterwards it counts as in use by itself. */
const STARTED_MS = 30_000

interface Options {
  /** Id by which other edges know this process. */
  processId: string
  db: Db
  blobs: Blobs
  sealer: Sealer
  now: () => Date
  logger: Logger
  runtimeLog: RuntimeLogWriter
  appsUrl: URL
  region: string | undefined
  /** Where the API listens for this process. */
  apiUrl: string
  signDeployment: (deploymentId: string) => string
  /** Answers requests of frameworks' cache handlers. */
  onCache: DeploymentListener
  sandbox: Pick<SandboxOptions, 'mode' | 'egress' | 'egressAllow' | 'network' | 'machineAddresses'>
  /** Absolute and short, since sockets live below it. Its contents can be fetched again. */
  folder: string
}

interface Opened {
  sandbox: Sandbox
  runtime: FunctionRuntime
}

/** What a Function's log lines need. */
interface Known {
  deploymentId: string
  applicationId: string
  redactor: () => Redactor
}

/** Adds up events; for current usage, the latest report wins. */
const addUsage = (before: FunctionUsage | undefined, usage: FunctionUsage): FunctionUsage => ({
  ...usage,
  coldStarts: (before?.coldStarts ?? 0) + usage.coldStarts,
  requests: (before?.requests ?? 0) + usage.requests,
  busyMs: (before?.busyMs ?? 0) + usage.busyMs,
})

export function openFunctions(options: Options): Functions {
  const { db, now, logger, runtimeLog, appsUrl, folder, processId } = options
  const folders = openFunctionFolders({ db, blobs: options.blobs, folder: join(folder, 'files') })
  const relay = openApiRelay(options)
  let onAssets: DeploymentListener = (_, __, outgoing) => void outgoing.writeHead(503, { 'content-length': '0' }).end()
  const platformFolders = openPlatformFolders({
    folder: join(folder, 'p'),
    logger,
    onApi: relay.listener,
    onAssets: (deploymentId, incoming, outgoing) => onAssets(deploymentId, incoming, outgoing),
    onCache: options.onCache,
  })
  /** Listeners for printed lines, by Function, during a trial start. */
  const watchers = new Map<string, (line: PrintedLine) => void>()
  /** Usage that is not stored yet. */
  const untold = new Map<string, FunctionUsage>()
  let isEdge = false
  let isClosed = false
  /** By Function. */
  const known = new LRUCache<string, Known>({ ...entriesMax(KNOWN_MAX) })
  let opening: Promise<Opened> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushing: Promise<void> = Promise.resolve()

  /** A message of a loaded Function, without its secrets. */
  function redact(functionId: string, { message, isCut }: { message: string; isCut?: true }): string {
    const redactor = known.get(functionId)?.redactor()
    if (!redactor) return ''
    return redactor.write(message) + (isCut ? redactor.cut() + CUT_MARK : redactor.end())
  }

  function onLog(line: FunctionLogLine): void {
    const about = known.get(line.functionId)
    if (!about) return
    const message = redact(line.functionId, line)
    runtimeLog.write({ ...line, message, applicationId: about.applicationId })
    watchers.get(line.functionId)?.({ level: line.level, message })
  }

  async function open(): Promise<Opened> {
    await makeOwnFolder(folder)
    const onWarning = (message: string): void => logger.warn(message)
    const sandbox = await openSandbox({ folder: join(folder, 's'), ...options.sandbox, onWarning })
    const runtime = await openFunctionRuntime({ sandbox, folder: join(folder, 'r'), logger, onLog, now })
    timer = setInterval(() => {
      flushing = flushing.then(flush)
    }, FLUSH_MS).unref()
    return { sandbox, runtime }
  }
  /** A failed attempt is repeated later: what was missing may have been installed. */
  function opened(): Promise<Opened> {
    if (!opening) {
      opening = open()
      opening.catch(() => setTimeout(() => (opening = undefined), REOPEN_MS).unref())
    }
    return opening
  }

  /** Stores the slots' usage, and ends slots of retired deployments. Never throws. */
  async function flush(): Promise<void> {
    try {
      const { runtime } = await opened()
      const usage = await runtime.takeUsage()
      for (const each of usage) untold.set(each.functionId, addUsage(untold.get(each.functionId), each))
      await recordFunctionUsage({ db, now }, processId, [...untold.values()])
      untold.clear()
      await tidyUp(runtime, usage)
    } catch (error) {
      logger.warn({ err: error }, 'the usage of Functions was not written down')
    }
  }

  async function tidyUp(runtime: FunctionRuntime, usage: readonly FunctionUsage[]): Promise<void> {
    const functionsInUse = new Set(usage.filter(({ slots }) => slots > 0).map(({ functionId }) => functionId))
    const inUse = new Set([...functionsInUse].flatMap((functionId) => known.get(functionId)?.deploymentId ?? []))
    await folders.evict((functionId) => functionsInUse.has(functionId) || starting.has(functionId))
    const startingFor = new Set([...starting.values()].map(({ deploymentId }) => deploymentId))
    await platformFolders.closeUnused((deploymentId) => inUse.has(deploymentId) || startingFor.has(deploymentId))
    if (inUse.size === 0) return
    const retired = await db
      .select({ id: deployments.id })
      .from(deployments)
      .where(
        and(
          inArray(deployments.id, [...inUse]),
          or(isNotNull(deployments.retiredAt), eq(deployments.status, 'FAILED')),
        ),
      )
    const gone = new Set(retired.map(({ id }) => id))
    if (gone.size > 0) runtime.reconcile((deploymentId) => !gone.has(deploymentId))
  }

  /** By Function: must not be tidied up, since a slot is about to use it. */
  const starting = new Map<string, { deploymentId: string; starts: number }>()

  async function load(functionId: string): Promise<FunctionSource> {
    const [row] = await db
      .select({
        function: deploymentFunctions,
        deployment: {
          id: deployments.id,
          label: deployments.label,
          applicationId: deployments.applicationId,
          organizationId: deployments.organizationId,
          environmentId: deployments.environmentId,
          builtAt: sql<Date>`coalesce(${deployments.buildEndedAt}, ${deployments.createdAt})`.mapWith(
            deployments.createdAt,
          ),
        },
        environment: environments.slug,
        productionLabel: hostnames.label,
      })
      .from(deploymentFunctions)
      .innerJoin(deployments, eq(deployments.id, deploymentFunctions.deploymentId))
      .innerJoin(environments, eq(environments.id, deployments.environmentId))
      .innerJoin(applications, eq(applications.id, deployments.applicationId))
      .leftJoin(hostnames, and(eq(hostnames.applicationId, applications.id), eq(hostnames.type, 'APP')))
      .where(eq(deploymentFunctions.id, functionId))
    if (!row) throw new Error(`The Function ${functionId} is not there`)
    const { deployment } = row
    const [quotas, own, secrets, files, platformFolder] = await Promise.all([
      quotasOf({ db }, deployment.organizationId),
      openDeploymentVariables(options, deployment.id),
      openDeploymentSecrets(options, deployment.id),
      folders.prepare(functionId),
      platformFolders.open(deployment.id),
    ])
    const { function: fn } = row
    known.set(functionId, {
      deploymentId: deployment.id,
      applicationId: deployment.applicationId,
      redactor: createRedaction(secrets),
    })
    return {
      functionId,
      deploymentId: deployment.id,
      name: fn.path,
      kind: fn.kind,
      folder: files,
      handler: fn.handler ?? undefined,
      command: fn.command ?? undefined,
      workingFolder: fn.workingFolder,
      isWeb: fn.isWeb,
      hasHelpers: fn.hasHelpers,
      variables: {
        NODE_ENV: 'production',
        ...platformVariables({ ...row, appsUrl }),
        ...(options.region !== undefined && { VERCEL_REGION: options.region }),
        ...fn.environment,
        ...own,
      },
      platformFolder,
      builtAt: deployment.builtAt.getTime(),
      memoryMb: Math.min(fn.memoryMb ?? quotas.function_memory_mb, quotas.function_memory_mb),
      slotsMax: quotas.function_slots,
    }
  }

  async function loading(deploymentId: string, functionId: string): Promise<FunctionSource> {
    const start = starting.get(functionId) ?? { deploymentId, starts: 0 }
    start.starts += 1
    starting.set(functionId, start)
    try {
      return await load(functionId)
    } finally {
      setTimeout(() => {
        start.starts -= 1
        if (start.starts === 0) starting.delete(functionId)
      }, STARTED_MS).unref()
    }
  }

  return {
    async probe() {
      try {
        const { sandbox } = await opened()
        return { obstacle: undefined, capabilities: sandbox.capabilities }
      } catch (error) {
        return { obstacle: error instanceof Error ? error.message : String(error) }
      }
    },
    async acquire(deploymentId, functionId, pin) {
      const { runtime } = await opened().catch((error: unknown) => {
        throw new Unavailable('Functions cannot run here', error)
      })
      return runtime.acquire(functionId, () => loading(deploymentId, functionId), pin)
    },
    async start(deploymentId, functionId) {
      const { runtime } = await opened()
      await runtime.start(await loading(deploymentId, functionId))
    },
    async tryOut(deploymentId, path, { onLine, signal }) {
      const { runtime } = await opened()
      const functionId = functionIdOf(deploymentId, path)
      const source = await loading(deploymentId, functionId)
      watchers.set(functionId, onLine)
      try {
        await runtime.start(source, !isEdge, signal)
      } catch (error) {
        if (!(error instanceof FunctionFailure)) throw error
        // It may quote the Function's own error, as its log does.
        throw new FunctionFailure(error.code, redact(functionId, error), error)
      } finally {
        watchers.delete(functionId)
      }
    },
    say(deploymentId, path, line) {
      onLog({ ...line, deploymentId, functionId: functionIdOf(deploymentId, path), functionName: path, at: now() })
    },
    serveAssets(listener) {
      isEdge = true
      onAssets = listener
    },
    async close(drainMs) {
      if (isClosed) return
      isClosed = true
      clearInterval(timer)
      if (opening) {
        const { sandbox, runtime } = await opening.catch(() => ({ sandbox: undefined, runtime: undefined }))
        await runtime?.close(drainMs)
        await flushing.then(flush)
        await sandbox?.close()
      }
      await platformFolders.close()
      relay.close()
    },
  }
}
