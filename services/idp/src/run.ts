import { env, exit, stderr } from 'node:process'
import { onShutdown } from '@platform/service/shutdown'
import { compose, migrate } from './compose.ts'
import { loadConfig } from './config.ts'
import { startIdp } from './server.ts'
import { startupFailure } from '@platform/service/startup-failure'

try {
  const config = loadConfig(env)
  if (config.MIGRATE_ON_START) await migrate(config)
  const { deps, close } = await compose(config)
  const idp = await startIdp(deps)
  const hasLauncher = config.PLATFORM_PARENT_PIPE === '1'
  onShutdown(
    deps.logger,
    async () => {
      // Under a launcher there is no load balancer that would have to notice.
      await idp.stop(hasLauncher ? 0 : config.STOP_NOTICE_MS)
      await close()
    },
    hasLauncher,
  )
  deps.logger.info({ issuer: deps.issuer, port: idp.port, healthPort: idp.healthPort }, 'ready')
} catch (error) {
  stderr.write(`${startupFailure(error)}\n`)
  exit(1)
}
