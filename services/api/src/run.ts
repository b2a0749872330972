import { argv, env, exit, stderr } from 'node:process'
import { ConfigError } from '@platform/runtime/config'
import { startHealth } from '@platform/service/health'
import { onShutdown } from '@platform/service/shutdown'
import { startupFailure } from '@platform/service/startup-failure'
import { compose, migrate } from './compose.ts'
import { type Config, loadConfig } from './config.ts'
import type { Deps } from './deps.ts'
import { startApi } from './roles/api.ts'
import { startEdge } from './roles/edge.ts'
import { startWorker } from './roles/worker.ts'

const roles = ['all', 'api', 'worker', 'edge'] as const
type Role = (typeof roles)[number]

/** A part of the process: a server, or the worker, which has no port and so nothing to drain. */
interface Running {
  port?: number
  s3Port?: number
  isHealthy?(): boolean
  drain?(): void
  stop(): Promise<void>
}

async function startRole(role: Role, deps: Deps, config: Config): Promise<Running[]> {
  const servers = []
  if (role === 'all' || role === 'worker') servers.push(startWorker(deps, config.JOBS_EVERY_MS))
  if (role === 'all' || role === 'api')
    servers.push(await startApi(deps, { host: config.HOST, port: config.PORT, s3Port: config.S3_PORT }))
  if (role === 'all' || role === 'edge')
    servers.push(await startEdge(deps, { host: config.HOST, port: config.EDGE_PORT }))
  return servers
}

async function run(role: Role, config: Config): Promise<void> {
  if (config.MIGRATE_ON_START) await migrate(config)
  const { deps, isReady, close } = await compose(config)
  const servers = await startRole(role, deps, config)
  // A process that also serves stays in the load balancer while a job fails: the metrics of jobs tell.
  const isRoleReady = async () =>
    (role !== 'worker' || servers.every(({ isHealthy }) => isHealthy?.() ?? true)) && isReady()
  const health = await startHealth(config.HEALTH_HOST, config.HEALTH_PORT, isRoleReady)
  deps.logger.info(
    { role, ports: servers.flatMap(({ port, s3Port }) => [port ?? [], s3Port ?? []].flat()), healthPort: health.port },
    'started',
  )
  const hasLauncher = config.PLATFORM_PARENT_PIPE === '1'
  const stop = async () => {
    health.draining()
    // Under a launcher nobody balances between processes, so there is nobody to wait for.
    if (!hasLauncher) {
      for (const server of servers) server.drain?.()
      await new Promise((resolve) => setTimeout(resolve, config.STOP_NOTICE_MS))
    }
    await Promise.all(servers.map((server) => server.stop()))
    await health.stop()
    await close()
  }
  onShutdown(deps.logger, stop, hasLauncher)
}

const isRole = (name: string): name is Role => (roles as readonly string[]).includes(name)
try {
  const role = argv[2] ?? 'all'
  if (!isRole(role)) throw new ConfigError(`There is no role ${role}; choose one of ${roles.join(', ')}`)
  await run(role, loadConfig(env))
} catch (error) {
  stderr.write(`${startupFailure(error)}\n`)
  exit(1)
}
