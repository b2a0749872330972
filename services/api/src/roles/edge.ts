import { listen, type Listening } from '@platform/service/http-server'
import type { Deps } from '../deps.ts'
import { createDeploymentServer } from '../features/delivery/deployment-server.ts'
import { labelBelow, readTargetOf } from '../features/delivery/request-host.ts'
import { createDeliveryServer } from '../features/delivery/server.ts'
import { sendPage, unreadableHost } from '../features/delivery/site-page.ts'

/**
 * Serves hostnames on a port of their own: deployments at one label below the host of APPS_URL, else buckets. Which of the two
 * is decided by the host alone, since nothing else tells their origins apart.
 */
export function startEdge(deps: Deps, at: { host: string; port: number }): Promise<Listening> {
  const serveBucket = createDeliveryServer(deps)
  const serveDeployment = createDeploymentServer(deps)
  const objectsSuffix = `.${deps.objectsDomain.replace(/:\d+$/, '')}`
  return listen(
    (incoming, outgoing) => {
      const target = readTargetOf(incoming)
      if (!target) {
        sendPage(outgoing, unreadableHost)
        return
      }
      const { hostname, url } = target
      const label = hostname.endsWith(objectsSuffix) ? undefined : labelBelow(hostname, deps.appsUrl.hostname)
      if (label === undefined) {
        if (incoming.url !== url) {
          incoming.url = url
          incoming.headers.host = hostname
        }
        serveBucket(incoming, outgoing)
      } else serveDeployment(incoming, outgoing, label, url)
    },
    at.host,
    at.port,
  )
}
