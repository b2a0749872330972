import { getRequestListener } from '@hono/node-server'
import { listen } from '@platform/service/http-server'
import type { Part } from '@platform/service/run-service'
import { jsonBody, unreadableRequest } from '@platform/service/unreadable-request'
import { type Address, listenerOn, listenersOn, type Running } from '../area.ts'
import { createApp } from '../http/app.ts'
import { originForm } from '../http/request-target.ts'

/** The methods that some path of the API has. */
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

const isAt = (url: string, prefix: string): boolean =>
  url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)))

/** Handlers that read long bodies enforce their own timeouts. */
const longBodies = { requestTimeoutMs: 0, isBodyInvited: true }

/**
 * Serves the HTTP API, with what areas answer below prefixes and on hosts of their own. S3 has a port of its own beside, for clients
 * whose endpoint cannot have a path.
 */
export async function startApi(
  running: Running,
  address: Address & { s3Port: number },
): Promise<Part & { s3Port: number }> {
  const { core, areas } = running
  const app = createApp(
    core,
    areas.flatMap(({ endpoints }) => endpoints),
  )
  const unreadable = unreadableRequest(core.logger, METHODS, ({ message }) => jsonBody({ error: message }))
  const handle = getRequestListener(app.fetch, { errorHandler: unreadable.errorHandler })
  // The longest first: one may be nested below another.
  const prefixes = listenersOn(running, 'api').toSorted((a, b) => b.prefix.length - a.prefix.length)
  const hosts = listenersOn(running, 'host')
  const s3 = listenerOn(running, 's3')
  const streams = areas.flatMap((area) => area.streams ?? [])
  const refuseNew = () => {
    for (const each of streams) each.refuseNew?.()
  }
  // Listens first, so that S3 is available once the API answers.
  const s3Server = await listen(
    (incoming, outgoing) => {
      incoming.url = originForm(incoming.url)
      s3.listener(incoming, outgoing)
    },
    address.host,
    address.s3Port,
    s3.refusal,
    longBodies,
  )
  const server = await listen(
    (incoming, outgoing) => {
      const url = (incoming.url = originForm(incoming.url))
      const host = incoming.headers.host ?? ''
      const raw = hosts.find(({ isFor }) => isFor(host)) ?? prefixes.find(({ prefix }) => isAt(url, prefix))
      if (raw) raw.listener(incoming, outgoing)
      else void handle(incoming, outgoing)
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
      refuseNew()
      for (const each of [server, s3Server]) each.drain()
    },
    async stop(drainMs = 25_000) {
      refuseNew()
      // Readers reconnect at once when their stream ends, and must not reach this process again.
      await server.refuseConnections()
      for (const each of streams) each.end?.(drainMs)
      await Promise.all([server.stop(drainMs), s3Server.stop(drainMs)])
      await Promise.all(streams.flatMap((each) => each.over?.() ?? []))
    },
  }
}
