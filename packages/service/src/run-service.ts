import { argv, env, exit, stderr } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '@platform/runtime/config'
import type { Logger } from '@platform/runtime/logger'
import { type BuildInfo, readBuildInfo } from './build-info.ts'
import { startHealth } from './health.ts'
import type { ServiceConfig } from './service-config.ts'
import { onShutdown } from './shutdown.ts'
import { startupFailure } from './startup-failure.ts'

/** A part of a process: a server, or a worker, which has no port and nothing to drain. */
export interface Part {
  /** The ports that it listens on. */
  ports?: readonly number[]
  /** False while the part cannot do its work. */
  isHealthy?(): boolean
  /** From now on its answers close their connections: the process is about to stop. */
  drain?(): void
  /** Ends it once what is under way is done, after drainMs at the latest. */
  stop(drainMs?: number): Promise<void>
}

/** What a process needs to know to serve: parts by role. `Deps` is what compose() builds for them. */
interface Service<Config, Deps> {
  /** As its log lines name it, such as `api`. */
  name: string
  /** Reads the environment. Throws ConfigError. */
  loadConfig(env: Record<string, string | undefined>): Config
  /** Brings the database to the schema of this release. */
  migrate(config: Config): Promise<void>
  compose(config: Config): Promise<{ deps: Deps; isReady(): Promise<boolean>; close(): Promise<void> }>
  /** What a process of each role runs, started in this order; `all` is the role of a process that was given none. */
  roles: { all: StartRole<Config, Deps> } & Record<string, StartRole<Config, Deps>>
}
type StartRole<Config, Deps> = (deps: Deps, config: Config) => Promise<Part[]>

/**
 * Serves the health listener beside the parts of a process. A process without ports is a worker: it is ready only while its
 * parts are healthy. A process with ports stays ready when its jobs fail, so that it is not taken out of the load balancer;
 * the metrics of the jobs show the failure.
 *
 * stop: readiness fails and the parts drain; after noticeMs they stop. 0 skips the notice, for a process that no load balancer
 * sends requests to.
 */
export async function superviseParts(
  parts: readonly Part[],
  health: { host: string; port: number; isReady: () => Promise<boolean>; build: BuildInfo },
): Promise<{ healthPort: number; stop(noticeMs: number): Promise<void> }> {
  const isServing = parts.some(({ ports = [] }) => ports.length > 0)
  const areHealthy = () => isServing || parts.every(({ isHealthy }) => isHealthy?.() ?? true)
  const isReady = async () => areHealthy() && (await health.isReady())
  const listener = await startHealth(health.host, health.port, isReady, health.build)
  return {
    healthPort: listener.port,
    async stop(noticeMs) {
      listener.draining()
      if (noticeMs > 0) {
        for (const part of parts) part.drain?.()
        await sleep(noticeMs)
      }
      await Promise.all(parts.map((part) => part.stop()))
      await listener.stop()
    },
  }
}

async function start<Config extends ServiceConfig, Deps extends { logger: Logger }>(
  { name, loadConfig, migrate, compose, roles }: Service<Config, Deps>,
  role: string,
): Promise<void> {
  const startRole = Object.hasOwn(roles, role) ? roles[role] : undefined
  if (!startRole) throw new ConfigError(`There is no role ${role}; choose one of ${Object.keys(roles).join(', ')}`)
  const config = loadConfig(env)
  if (config.MIGRATE_ON_START) await migrate(config)
  const { deps, isReady, close } = await compose(config)
  const parts = await startRole(deps, config)
  const build = readBuildInfo(name, config.BUILD_COMMIT)
  const { healthPort, stop } = await superviseParts(parts, {
    host: config.HEALTH_HOST,
    port: config.HEALTH_PORT,
    isReady,
    build,
  })
  const { commit } = build
  deps.logger.info({ role, commit, ports: parts.flatMap(({ ports = [] }) => ports), healthPort }, 'started')
  const hasLauncher = config.PLATFORM_PARENT_PIPE === '1'
  const end = async () => {
    await stop(hasLauncher ? 0 : config.STOP_NOTICE_MS)
    await close()
  }
  onShutdown(deps.logger, end, hasLauncher)
}

/**
 * Runs a service as a process: configuration, migrations, what the role in argv[2] names, health, and an orderly end on
 * SIGTERM. A process that cannot start says why in a sentence on stderr and ends with code 1.
 */
export async function runService<Config extends ServiceConfig, Deps extends { logger: Logger }>(
  service: Service<Config, Deps>,
): Promise<void> {
  try {
    await start(service, argv[2] ?? 'all')
  } catch (error) {
    stderr.write(`${startupFailure(error)}\n`)
    exit(1)
  }
}
