import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '@platform/runtime/config'
import { createLogger, type Logger } from '@platform/runtime/logger'
import { readBuildInfo } from './build-info.ts'
import { type Health, startHealth } from './health.ts'
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
  /** Brings the database to the schema of this release, or makes sure that it has it. */
  prepareDatabase(config: Config, logger: Logger): Promise<void>
  compose(
    config: Config,
    overrides: { logger: Logger },
    role: string,
  ): Promise<{ deps: Deps; isReady(): Promise<boolean>; close(): Promise<void> }>
  /** The parts of each role, started in this order; `all` is the default role. */
  roles: { all: StartRole<Config, Deps> } & Record<string, StartRole<Config, Deps>>
}
type StartRole<Config, Deps> = (deps: Deps, config: Config) => Promise<Part[]>

/**
 * Lets the health listener speak for the parts of a process. A process without ports is a worker: it is ready only while its
 * parts are healthy. A process with ports stays ready when its jobs fail, so that it stays in the load balancer; the metrics of
 * the jobs show the failure.
 *
 * Returns what stops both: readiness fails and the parts drain; after noticeMs they stop. 0 skips the notice, for a process behind
 * no load balancer.
 */
export function superviseParts(
  parts: readonly Part[],
  health: Health,
  isReady: () => Promise<boolean>,
): (noticeMs: number) => Promise<void> {
  const isServing = parts.some(({ ports = [] }) => ports.length > 0)
  const areHealthy = () => isServing || parts.every(({ isHealthy }) => isHealthy?.() ?? true)
  health.readyWhile(async () => areHealthy() && (await isReady()))
  return async (noticeMs) => {
    health.draining()
    if (noticeMs > 0) {
      for (const part of parts) part.drain?.()
      await sleep(noticeMs)
    }
    await Promise.all(parts.map((part) => part.stop()))
    await health.stop()
  }
}

async function start<Config extends ServiceConfig, Deps>(
  { name, loadConfig, prepareDatabase, compose, roles }: Service<Config, Deps>,
  { words: [role = 'all'], env }: Call,
): Promise<void> {
  const startRole = Object.hasOwn(roles, role) ? roles[role] : undefined
  if (!startRole) throw new ConfigError(`There is no role ${role}; choose one of ${Object.keys(roles).join(', ')}`)
  const config = loadConfig(env)
  const logger = createLogger(name, config.LOG_LEVEL)
  const build = readBuildInfo(name, config.BUILD_COMMIT)
  // Before the migrations, which may wait for a minute: a process that is not live gets killed by who supervises it.
  const health = await startHealth(config.HEALTH_HOST, config.HEALTH_PORT, build, logger)
  try {
    await prepareDatabase(config, logger)
    const { deps, isReady, close } = await compose(config, { logger }, role)
    const parts = await startRole(deps, config)
    const stop = superviseParts(parts, health, isReady)
    const ports = parts.flatMap((part) => part.ports ?? [])
    logger.info({ role, commit: build.commit, ports, healthPort: health.port }, 'started')
    const hasLauncher = config.PLATFORM_PARENT_PIPE === '1'
    const end = async () => {
      await stop(hasLauncher ? 0 : config.STOP_NOTICE_MS)
      await close()
    }
    onShutdown(logger, end, hasLauncher)
  } catch (error) {
    await health.stop()
    throw error
  }
}

/**
 * Starts a service: configuration, health, migrations, the parts of the role that the first word names, and an orderly shutdown
 * on SIGTERM.
 *
 * Returns the exit code: 0 once it has started; 1 if it cannot, and then it says why in a sentence on stderr and may keep
 * handles open.
 */
export async function runService<Config extends ServiceConfig, Deps>(
  service: Service<Config, Deps>,
  call: Call,
): Promise<number> {
  try {
    await start(service, call)
    return 0
  } catch (error) {
    call.stderr.write(`${startupFailure(error, call.env)}\n`)
    return 1
  }
}
