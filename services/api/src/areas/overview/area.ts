import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { StoragePorts } from '../storage/deps.ts'
import { createConsoleServer } from './console/server.ts'
import type { OverviewDeps } from './deps.ts'
import { overviewEndpoints } from './endpoints.ts'

export function openOverview(
  core: Core,
  config: Pick<Config, 'CLIENTS_FOLDER' | 'CONSOLE_URL' | 'DOCS_CLIENT_ID'>,
  { objectsDomain, document }: Pick<StoragePorts, 'objectsDomain'> & Pick<OverviewDeps, 'document'>,
): Opened<OverviewDeps> {
  const deps: OverviewDeps = {
    ...core,
    objectsDomain,
    document,
    docsClientId: config.DOCS_CLIENT_ID,
    clientsFolder: config.CLIENTS_FOLDER,
    consoleUrl: config.CONSOLE_URL,
  }
  return {
    deps,
    endpoints: overviewEndpoints,
    ports: {},
    listeners: [{ on: 'console', create: (site) => createConsoleServer(deps, site) }],
  }
}
