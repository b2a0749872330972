import { join } from 'node:path'
import { ConfigError } from '@platform/runtime/config'
import { hasMachineUsers } from '@platform/sandbox/machine-namespaces'
import { watchUntilClosed } from '@platform/service/dependencies'
import { type Part, runService } from '@platform/service/run-service'
import type { Call } from '@platform/service/run-process'
import { compose, prepareDatabase } from './compose.ts'
import { type Config, loadConfig } from './config.ts'
import type { Running } from './area.ts'
import { requireWritableFolder } from './areas/storage/drivers/open-blobs.ts'
import { startApi } from './roles/api.ts'
import { startConsole } from './roles/console.ts'
import { startEdge } from './roles/edge.ts'
import { startWorker } from './roles/worker.ts'

const worker = (running: Running, config: Config) => startWorker(running, config.JOBS_EVERY_MS)
const api = (running: Running, { HOST: host, PORT: port, S3_PORT: s3Port }: Config) =>
  startApi(running, { host, port, s3Port })
const edge = (running: Running, config: Config) =>
  startEdge(running, {
    host: config.HOST,
    port: config.EDGE_PORT,
    internalPort: config.EDGE_INTERNAL_PORT,
    internalUrl: config.EDGE_INTERNAL_URL,
  })

/** The web console, where everything that it needs is configured. */
async function webConsole(running: Running, config: Config): Promise<Part[]> {
  const {
    CONSOLE_URL,
    CLIENTS_FOLDER,
    CONSOLE_CLIENT_IDS: [clientId],
    HOST: host,
    CONSOLE_PORT: port,
  } = config
  if (CONSOLE_URL === undefined || CLIENTS_FOLDER === undefined || clientId === undefined) return []
  return [await startConsole(running, { host, port }, { folder: join(CLIENTS_FOLDER, 'console'), clientId })]
}

/** Wraps a role whose process may run tenants' code. Not awaited: what areas report takes longer than a start may. */
const withReports =
  (start: (running: Running, config: Config) => Promise<Part[]>) =>
  async (running: Running, config: Config): Promise<Part[]> => {
    const parts = await start(running, config)
    for (const area of running.areas) void area.report?.()
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
        const { areas } = composed.deps
        process.on('SIGHUP', () => {
          for (const area of areas) void area.reload?.()
        })
        const { issuer: _, ...others } = composed.checks
        return watchUntilClosed({ ...composed, checks: takesTokens(role) ? composed.checks : others }, overrides.logger)
      },
      roles: {
        // Where the API answers, the console does, too: a launcher waits for the API alone.
        all: withReports(async (running, config) => [
          worker(running, config),
          ...(await webConsole(running, config)),
          await api(running, config),
          await edge(running, config),
        ]),
        api: async (running, config) => [...(await webConsole(running, config)), await api(running, config)],
        worker: withReports(async (running, config) => [worker(running, config)]),
        edge: withReports(async (running, config) => [await edge(running, config)]),
      },
    },
    call,
  )
