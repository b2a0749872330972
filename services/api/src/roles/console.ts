import { listen, type Listening } from '@platform/service/http-server'
import { textBody, unreadableRequest } from '@platform/service/unreadable-request'
import type { Deps } from '../deps.ts'
import { type ConsoleSite, createConsoleServer } from '../areas/overview/console/server.ts'

/** Serves the web console on a port of its own: an origin that nothing else shares. */
export const startConsole = (
  deps: Deps,
  { host, port }: { host: string; port: number },
  site: ConsoleSite,
): Promise<Listening> =>
  listen(createConsoleServer(deps, site), host, port, unreadableRequest(deps.logger, 'GET, HEAD', textBody).refusal)
