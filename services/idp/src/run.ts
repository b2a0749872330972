import { runService } from '@platform/service/run-service'
import { compose, migrate } from './compose.ts'
import { loadConfig } from './config.ts'
import { startHousekeeping } from './roles/housekeeping.ts'
import { startIdp } from './roles/idp.ts'

await runService({
  name: 'idp',
  loadConfig,
  migrate,
  compose,
  roles: {
    all: async (deps, { HOST: host, PORT: port, AUDIT_RETENTION_DAYS }) => [
      await startIdp(deps, { host, port }),
      startHousekeeping(deps, AUDIT_RETENTION_DAYS),
    ],
  },
})
