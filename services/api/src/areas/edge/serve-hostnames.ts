import type { IncomingMessage } from 'node:http'
import { listen, type Listening } from '@platform/service/http-server'
import { unreadableRequest } from '@platform/service/unreadable-request'
import type { EdgeAddress } from '../../area.ts'
import { openCronRunner } from './crons/edge-runs.ts'
import { createDeploymentServer } from './delivery/deployment-server.ts'
import { labelBelow, readTargetOf } from './delivery/request-host.ts'
import { createDeliveryServer } from './delivery/server.ts'
import { startEdgeListener } from './delivery/edge-listener.ts'
import { openOtherEdges } from './delivery/other-edges.ts'
import { openPinnedSlots } from './delivery/pinned-slots.ts'
import { sendPage, unreadableHost, unreadablePage } from './delivery/site-page.ts'
import type { EdgeDeps } from './deps.ts'

/** A Function may answer any of them. */
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/**
 * True if a request opens a WebSocket (RFC 6455 §4.1). Clients that offer cleartext HTTP/2 send an Upgrade header with ordinary
 * requests too, bodies included.
 */
const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['transfer-encoding'] === undefined &&
  (headers['content-length'] ?? '0') === '0'

/**
 * Serves hostnames on a port of their own: deployments at one label below the host of APPS_URL, buckets at all others. The host
 * alone decides, since nothing else distinguishes their origins.
 */
export async function serveHostnames(deps: EdgeDeps, address: EdgeAddress): Promise<Listening> {
  const otherEdges = openOtherEdges({ ...deps, signer: deps.edgeSigner })
  const pinned = openPinnedSlots(deps, otherEdges)
  const serveBucket = createDeliveryServer(deps)
  const deployments = createDeploymentServer(deps, pinned)
  deps.functions.serveAssets((deploymentId, incoming, outgoing) =>
    deployments.serveFiles(deploymentId, incoming, outgoing),
  )
  const objectsSuffix = `.${deps.objectsDomain.replace(/:\d+$/, '')}`
  const labelOf = (hostname: string): string | undefined =>
    hostname.endsWith(objectsSuffix) ? undefined : labelBelow(hostname, deps.appsUrl.hostname)
  const deploymentOf = (incoming: IncomingMessage): { label: string; url: string } | undefined => {
    const target = readTargetOf(incoming)
    const label = target && labelOf(target.hostname)
    return target && label !== undefined ? { label, url: target.url } : undefined
  }
  const { refusal } = unreadableRequest(deps.logger, METHODS, ({ status, message }) => unreadablePage(status, message))
  const server = await listen(
    (incoming, outgoing) => {
      const target = readTargetOf(incoming)
      if (!target) {
        sendPage(outgoing, unreadableHost)
        return
      }
      const { hostname, url } = target
      const label = labelOf(hostname)
      if (label === undefined) {
        if (incoming.url !== url) {
          incoming.url = url
          incoming.headers.host = hostname
        }
        serveBucket(incoming, outgoing)
      } else deployments.serve(incoming, outgoing, label, url)
    },
    address.host,
    address.port,
    refusal,
    {
      // Functions accept bodies for as long as they take; everything else has 30 s.
      requestTimeoutMs: 0,
      isUpgrade: (incoming) => isWebSocket(incoming) && deploymentOf(incoming) !== undefined,
      onUpgrade(incoming, socket, head) {
        const deployment = deploymentOf(incoming)
        if (deployment) deployments.upgrade(incoming, socket, head, deployment.label, deployment.url)
        else socket.destroy()
      },
    },
  )
  // Without a URL of its own the edge is reachable on this machine only.
  const internalHost = address.internalUrl === undefined ? '127.0.0.1' : address.host
  const crons = openCronRunner(deps, deployments)
  const internal = await startEdgeListener(deps, pinned, crons.take, {
    host: internalHost,
    port: address.internalPort ?? 0,
  })
  await deps.membership.join(address.internalUrl ?? `http://127.0.0.1:${internal.port}`)
  return {
    ...server,
    ports: [...server.ports, internal.port],
    drain() {
      server.drain()
      // Other edges keep connections too. Without this, one that is in use when the listener closes stays until it is cut.
      internal.drain()
    },
    async stop(drainMs = 25_000) {
      const deadline = performance.now() + drainMs
      // Other edges use this one's slots until its visitors are gone, then take over the Functions it ran.
      await server.stop(drainMs)
      await deps.membership.leave()
      const leftMs = Math.max(0, deadline - performance.now())
      await Promise.all([internal.stop(leftMs), crons.stop(leftMs)])
      await deps.functions.close(drainMs)
      await otherEdges.close()
    },
  }
}
