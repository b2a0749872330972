import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '@platform/runtime/config'
import type { Logger } from '@platform/runtime/logger'
import { type BuildInfo, readBuildInfo } from './build-info.ts'
import { startHealth } from './health.ts'
import type { Call } from './run-process.ts'
import type { ServiceConfig } from './service-config.ts'
import { onShutdown } from './shutdown.ts'
import { startupFailure } from './startup-failure.ts'

/** A part of a process: a server, or a worker, which has no port and nothing to drain. */
export interface Part {
  /** The ports it listens on. */
  ports?: readonly number[]
  /** False while the part cannot do its work. */
  isHealthy?(): boolean
  /** From now on responses close their connections: the process is about to stop. */
  drain?(): void
  /** Stops once work in progress is done, at the latest after drainMs. */
  stop(drainMs?: number): Promise<void>
}

/** How to run a service: its parts by role. `Deps` is what compose() builds for them. */
interface Service<Config, Deps> {
  /** As log lines name it, for example `api`. */
  name: string
  /** Reads the environment. Throws ConfigError. */
  loadConfig(env: Record<string, string | undefined>): Config
  /** Migrates the database to the schema of this release. */
  migrate(config: Config): Promise<void>
  compose(config: Config): Promise<{ deps: Deps; isReady(): Promise<boolean>; close(): Promise<void> }>
  /** The parts of each role, started in this order; `all` is the default role. */
  roles: { all: StartRole<Config, Deps> } & Record<string, StartRole<Config, Deps>>
}
type StartRole<Config, Deps> = (deps: Deps, config: Config) => Promise<Part[]>

/**
 * Serves the health listener beside the parts of a process. A process without ports is a worker: it is ready only while its
 * parts are healthy. A process with ports stays ready when its jobs fail, so that it stays in the load balancer; the metrics of
 * the jobs show the failure.
 *
 * stop: readiness fails and the parts drain; after noticeMs they stop. 0 skips the notice, for a process behind no load
 * balancer.
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
  { words: [role = 'all'], env }: Call,
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
 * Starts a service: configuration, migrations, the parts of the role that the first word names, health, and an orderly shutdown
 * on SIGTERM.
 *
 * Returns the exit code: 0 once it has started; 1 if it cannot, and then it says why in a sentence on stderr and may keep
 * handles open.
 */
export async function runService<Config extends ServiceConfig, Deps extends { logger: Logger }>(
  service: Service<Config, Deps>,
  call: Call,
): Promise<number> {
  try {
    await start(service, call)
    return 0
  } catch (error) {
    call.stderr.write(`${startupFailure(error)}\n`)
    return 1
  }
}
