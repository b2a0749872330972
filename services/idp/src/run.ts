import { runService } from '@platform/service/run-service'
import { compose, migrate } from './compose.ts'
import { loadConfig } from './config.ts'
import { startHousekeeping } from './housekeeping.ts'
import { startIdp } from './roles/idp.ts'

await runService({
  loadConfig,
  migrate,
  compose,
  roles: {
    async all(deps, { HOST: host, PORT: port }) {
      const server = await startIdp(deps, { host, port })
      return [{ ...server, ports: [server.port] }, startHousekeeping(deps)]
    },
  },
})
