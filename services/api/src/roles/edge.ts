import type { IncomingMessage } from 'node:http'
import { listen, type Listening } from '@platform/service/http-server'
import type { Deps } from '../deps.ts'
import { type DoorExchange, openDoor } from '../http/door.ts'
import { OBJECTS_PATH } from '../features/storage/access-url.ts'
import { type Delivered, deliverObject, type DeliveryTarget, keyOfPath } from '../features/delivery/deliver-object.ts'

const nothingHere = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Nothing is deployed here</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { min-height: 90vh; display: grid; place-content: center; text-align: center; margin: 0; padding: 1rem }
  p { opacity: .75 }
</style>
<h1>Nothing is deployed here</h1>
<p>No application answers at this address.</p>
</html>
`

const hostOf = (incoming: IncomingMessage): string => (incoming.headers.host ?? '').toLowerCase()
const withoutPort = (host: string): string => host.replace(/:\d+$/, '')

/** The object that a request names: by the bucket's hostname, or by path on the edge's own origin. */
function targetOf(
  { objectsDomain, appsDomain }: Deps,
  { incoming, path, url }: DoorExchange,
): DeliveryTarget | undefined {
  const query = new URLSearchParams(url.slice(path.length + 1))
  const host = withoutPort(hostOf(incoming))
  const below = `.${withoutPort(objectsDomain)}`
  if (host.endsWith(below)) {
    const slug = host.slice(0, -below.length)
    return { slug, key: keyOfPath(path.slice(1)), query, isSandboxed: false }
  }
  if (!path.startsWith(OBJECTS_PATH) || host.endsWith(`.${withoutPort(appsDomain)}`)) return undefined
  const [slug = '', ...key] = path.slice(OBJECTS_PATH.length).split('/')
  return { slug, key: keyOfPath(key.join('/')), query, isSandboxed: true }
}

/** Tells the log of served requests what became of one. */
function logDelivery(
  deps: Deps,
  { incoming, outgoing, path, url }: DoorExchange,
  served: Delivered,
  startedAt: Date,
  sentBefore: number,
): void {
  const bytesSent = incoming.socket.bytesWritten - sentBefore
  const length = Number(outgoing.getHeader('content-length') ?? 0)
  const hasBody = incoming.method !== 'HEAD' && outgoing.statusCode !== 304
  deps.requestLog.write({
    ...served,
    method: incoming.method ?? 'GET',
    hostname: hostOf(incoming),
    path,
    query: url.slice(path.length + 1),
    protocol: `HTTP/${incoming.httpVersion}`,
    status: outgoing.statusCode,
    requestBodyBytes: 0,
    // Of an answer that broke off nobody knows how much of what was sent was head.
    responseBodyBytes: hasBody ? Math.min(length || bytesSent, bytesSent) : 0,
    bytesSent,
    startedAt,
    completedAt: new Date(),
    requestHeaders: incoming.headers,
    responseHeaders: outgoing.getHeaders() as Record<string, string>,
  })
}

async function handle(exchange: DoorExchange): Promise<void> {
  const { deps, incoming, outgoing } = exchange
  const target = targetOf(deps, exchange)
  if (!target) {
    exchange.operation = 'nothingHere'
    outgoing.writeHead(404, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    })
    outgoing.end(incoming.method === 'HEAD' ? undefined : nothingHere)
    return
  }
  exchange.operation = 'deliverObject'
  const startedAt = new Date()
  const sentBefore = incoming.socket.bytesWritten
  await deliverObject(deps, exchange, target, (served) =>
    outgoing.once('close', () => logDelivery(deps, exchange, served, startedAt, sentBefore)),
  )
}

/**
 * Serves hostnames on a port of its own, an origin that the API's never is: the objects of buckets below OBJECTS_DOMAIN. A
 * hostname that belongs to nothing is a 404.
 */
export async function startEdge(deps: Deps, at: { host: string; port: number }): Promise<Listening> {
  const listener = openDoor(deps, {
    name: 'edge',
    origins: 'any',
    exposedHeaders: 'Accept-Ranges, Content-Disposition, Content-Range, ETag, X-Request-Id',
    allow: {
      methods: 'GET, HEAD',
      headers: 'If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range',
    },
    handle,
  })
  return listen(listener, at.host, at.port)
}
