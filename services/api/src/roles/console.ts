import { listen, type Listening } from '@platform/service/http-server'
import { textBody, unreadableRequest } from '@platform/service/unreadable-request'
import { type Address, listenerOn, type Running } from '../area.ts'

/** Serves the web console on a port of its own: an origin that nothing else shares. */
export function startConsole(
  running: Running,
  { host, port }: Address,
  site: { folder: string; clientId: string },
): Promise<Listening> {
  const { refusal } = unreadableRequest(running.core.logger, 'GET, HEAD', textBody)
  return listen(listenerOn(running, 'console').create(site), host, port, refusal)
}
