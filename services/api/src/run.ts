import { join } from 'node:path'
import { ConfigError } from '@platform/runtime/config'
import { hasMachineUsers } from '@platform/sandbox/machine-namespaces'
import { watchUntilClosed } from '@platform/service/dependencies'
import { type Part, runService } from '@platform/service/run-service'
import type { Call } from '@platform/service/run-process'
import { compose, prepareDatabase } from './compose.ts'
import { type Config, loadConfig } from './config.ts'
import type { Deps } from './deps.ts'
import { requireWritableFolder } from './areas/storage/drivers/open-blobs.ts'
import { startApi } from './roles/api.ts'
import { startConsole } from './roles/console.ts'
import { startEdge } from './roles/edge.ts'
import { retentionOf, startWorker } from './roles/worker.ts'

/** Reloads the AI providers file on SIGHUP. */
const reloadOnHangup = ({ ai }: Deps): void => void process.on('SIGHUP', () => void ai.reload())

const worker = (deps: Deps, config: Config) => startWorker(deps, config.JOBS_EVERY_MS, retentionOf(config))
const api = (deps: Deps, { HOST: host, PORT: port, S3_PORT: s3Port }: Config) => startApi(deps, { host, port, s3Port })
const edge = (deps: Deps, config: Config) =>
  startEdge(deps, {
    host: config.HOST,
    port: config.EDGE_PORT,
    internalPort: config.EDGE_INTERNAL_PORT,
    internalUrl: config.EDGE_INTERNAL_URL,
  })

/** The web console, where everything that it needs is configured. */
async function webConsole(deps: Deps, config: Config): Promise<Part[]> {
  const {
    CONSOLE_URL,
    CLIENTS_FOLDER,
    CONSOLE_CLIENT_IDS: [clientId],
    HOST: host,
    CONSOLE_PORT: port,
  } = config
  if (CONSOLE_URL === undefined || CLIENTS_FOLDER === undefined || clientId === undefined) return []
  return [await startConsole(deps, { host, port }, { folder: join(CLIENTS_FOLDER, 'console'), clientId })]
}

/** Logs how Functions are isolated on this machine. Not awaited: probing takes longer than a start may. */
async function reportWalls({ functions, logger }: Deps): Promise<void> {
  const probed = await functions.probe()
  if (probed.obstacle !== undefined) {
    logger.warn(`Functions cannot run here: ${probed.obstacle}`)
    return
  }
  const { missing, ...walls } = probed.capabilities
  logger.info(walls, 'Functions can run')
  for (const sentence of missing) logger.warn(sentence)
}

/** Wraps a role whose process may start Functions. */
const withFunctions =
  (start: (deps: Deps, config: Config) => Promise<Part[]>) =>
  async (deps: Deps, config: Config): Promise<Part[]> => {
    const parts = await start(deps, config)
    void reportWalls(deps)
    return parts
  }

/** Whether a role asks the issuer for anything: an edge and a worker need no way to it. */
const takesTokens = (role: string): boolean => role === 'all' || role === 'api'

/** Starts the service and returns its exit code. */
export const run = (call: Call): Promise<number> =>
  runService(
    {
      name: 'api',
      loadConfig,
      async prepareDatabase(config, logger) {
        // What is configured wrongly is refused before anything is changed.
        if (config.REQUIRE_USER_NAMESPACE && hasMachineUsers())
          throw new ConfigError(
            'REQUIRE_USER_NAMESPACE is true, and root of this process is root of the machine: set hostUsers: false in its pod, on ' +
              'nodes with containerd 2.0 or newer, runc 1.2 or newer and Linux 6.3 or newer. Older ones ignore it',
          )
        await requireWritableFolder(config.OBJECTS_URL)
        await prepareDatabase(config, logger)
      },
      async compose(config, overrides, role) {
        const composed = await compose(config, overrides)
        reloadOnHangup(composed.deps)
        const { issuer: _, ...others } = composed.checks
        return watchUntilClosed({ ...composed, checks: takesTokens(role) ? composed.checks : others })
      },
      roles: {
        // Where the API answers, the console does, too: a launcher waits for the API alone.
        all: withFunctions(async (deps, config) => [
          worker(deps, config),
          ...(await webConsole(deps, config)),
          await api(deps, config),
          await edge(deps, config),
        ]),
        api: async (deps, config) => [...(await webConsole(deps, config)), await api(deps, config)],
        worker: withFunctions(async (deps, config) => [worker(deps, config)]),
        edge: withFunctions(async (deps, config) => [await edge(deps, config)]),
      },
    },
    call,
  )
