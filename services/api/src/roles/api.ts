import type { RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { renderError } from '@platform/errors/render-error'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { listen } from '@platform/service/http-server'
import type { Part } from '@platform/service/run-service'
import { jsonBody, unreadableRequest } from '@platform/service/unreadable-request'
import type { Deps } from '../deps.ts'
import { endpoints } from '../endpoints.ts'
import { isS3Host } from '../areas/storage/s3/addressing.ts'
import { createS3Listener } from '../areas/storage/s3/server.ts'
import { createPartServer } from '../areas/deploy/deployments/receive-part.ts'
import { createTusServer } from '../areas/storage/tus/server.ts'
import { bindEndpoint, createApp } from '../http/app.ts'
import { originForm } from '../http/request-target.ts'

/** The methods that some path of the API has, and those that S3 has. */
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'
const S3_METHODS = 'GET, HEAD, POST, PUT, DELETE, OPTIONS'

const isAt = (url: string, prefix: string): boolean =>
  url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)))

/** Time reserved for telling readers of streams that the process is stopping. */
const SAYING_SO_MS = 2_000

/** Handlers that read long bodies enforce their own timeouts. */
const longBodies = { requestTimeoutMs: 0, isBodyInvited: true }

/** What S3's own port answers to input that is not HTTP, and to CONNECT. */
const unreadableXml = ({ status, message, requestId }: { status: number; message: string; requestId: string }) => {
  const failure = s3Failure(status === 405 ? 'MethodNotAllowed' : 'InvalidRequest', message)
  return { type: 'application/xml', body: renderError('s3', failure, { path: '', requestId }).body }
}

/**
 * Serves the HTTP API with S3 below `/s3`. Also serves S3 at the root: on a port of its own, for clients whose endpoint cannot
 * have a path, and on hosts of S3_DOMAIN, whichever port a proxy sends them to.
 */
export async function startApi(
  deps: Deps,
  address: { host: string; port: number; s3Port: number },
): Promise<Part & { s3Port: number }> {
  const app = createApp(
    deps,
    endpoints.map((endpoint) => bindEndpoint(deps, endpoint)),
  )
  const unreadable = unreadableRequest(deps.logger, METHODS, ({ message }) => jsonBody({ error: message }))
  const handle = getRequestListener(app.fetch, { errorHandler: unreadable.errorHandler })
  const rawListeners: readonly [prefix: string, RequestListener][] = [
    ['/s3', createS3Listener(deps, 'prefix')],
    // Before /files, since it is nested below it.
    ['/files/deployments', createPartServer(deps)],
    ['/files', createTusServer(deps)],
  ]
  const serveS3 = createS3Listener(deps, 'root')
  const s3AtRoot: RequestListener = (incoming, outgoing) => {
    incoming.url = originForm(incoming.url)
    serveS3(incoming, outgoing)
  }
  // Listens first, so that S3 is available once the API answers.
  const { refusal: refuseInXml } = unreadableRequest(deps.logger, S3_METHODS, unreadableXml)
  const s3Server = await listen(s3AtRoot, address.host, address.s3Port, refuseInXml, longBodies)
  const server = await listen(
    (incoming, outgoing) => {
      const url = (incoming.url = originForm(incoming.url))
      if (isS3Host(deps, incoming.headers.host ?? '')) {
        serveS3(incoming, outgoing)
        return
      }
      const raw = rawListeners.find(([prefix]) => isAt(url, prefix))
      if (raw) {
        raw[1](incoming, outgoing)
        return
      }
      void handle(incoming, outgoing)
    },
    address.host,
    address.port,
    unreadable.refusal,
    longBodies,
  )
  return {
    ports: [server.port, s3Server.port],
    s3Port: s3Server.port,
    drain() {
      deps.streamSlots.refuseNew()
      for (const each of [server, s3Server]) each.drain()
    },
    async stop(drainMs = 25_000) {
      deps.streamSlots.refuseNew()
      // Readers reconnect at once when their stream ends, and must not reach this process again.
      await server.refuseConnections()
      deps.activityFeed.endStreams()
      deps.buildLogFeed.endStreams()
      deps.requestFeed.endStreams()
      deps.runtimeLogFeed.endStreams()
      // Before connections are cut, so that readers of streams learn why they end.
      const cancel = deps.ai.calls.endAfter(Math.max(0, drainMs - SAYING_SO_MS))
      await Promise.all([server.stop(drainMs), s3Server.stop(drainMs)])
      // Calls outlive their connections: usage must be recorded even if the client has left.
      await deps.ai.calls.over()
      cancel()
    },
  }
}
