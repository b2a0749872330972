import { watchUntilClosed } from '@platform/service/dependencies'
import { runService } from '@platform/service/run-service'
import type { Call } from '@platform/service/run-process'
import { compose, prepareDatabase } from './compose.ts'
import { type Config, loadConfig } from './config.ts'
import { startHousekeeping } from './roles/housekeeping.ts'
import { startIdp } from './roles/idp.ts'

/** Starts the service and returns its exit code. */
export const run = (call: Call): Promise<number> =>
  runService(
    {
      name: 'idp',
      loadConfig,
      prepareDatabase,
      compose: async (config: Config, overrides) =>
        watchUntilClosed(await compose(config, overrides), overrides.logger),
      roles: {
        all: async (deps, { HOST: host, PORT: port, AUDIT_RETENTION_DAYS }) => [
          await startIdp(deps, { host, port }),
          startHousekeeping(deps, AUDIT_RETENTION_DAYS),
        ],
      },
    },
    call,
  )
