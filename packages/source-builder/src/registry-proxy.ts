import { chmod, rm } from 'node:fs/promises'
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from 'node:http'
import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { connect, type LookupFunction, type Socket } from 'node:net'
import { callbackify } from 'node:util'

/** A proxy that lets a build reach only package registries. Disposing of it ends its connections. */
export interface RegistryProxy extends AsyncDisposable {
  /** Absolute path of its Unix socket. */
  socket: string
}

const CONNECT_MS = 10_000
const IDLE_MS = 120_000
const CONNECTIONS_MAX = 256
/** Headers for a single connection, not for the origin. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'upgrade']

type LookUpAll = (host: string) => Promise<LookupAddress[]>

/** How long the addresses of a registry are used again. */
const ADDRESSES_MS = 30_000

/**
 * Looks hosts up once for all connections of a while: pnpm opens hundreds, and each look-up holds one of the few threads on which this
 * process also reads its files.
 */
function openLookup(lookUpAll: LookUpAll): LookupFunction {
  const known = new Map<string, { until: number; addresses: Promise<LookupAddress[]> }>()
  const find = (host: string): Promise<LookupAddress[]> => {
    const now = performance.now()
    let entry = known.get(host)
    if (entry === undefined || entry.until < now) {
      const addresses = lookUpAll(host)
      known.set(host, (entry = { until: now + ADDRESSES_MS, addresses }))
      addresses.catch(() => known.delete(host))
    }
    return entry.addresses
  }
  const answer = callbackify(find)
  return (host, { all }, callback) =>
    answer(host, (error, addresses) => {
      const [first] = addresses ?? []
      if (error) callback(error, '')
      else if (all === true) callback(null, addresses)
      else callback(null, first?.address ?? '', first?.family)
    })
}

const portOf = ({ port, protocol }: URL): string => (port !== '' ? port : protocol === 'http:' ? '80' : '443')
const placeOf = (url: URL): string => `${url.hostname}:${portOf(url)}`

/**
 * Opens the proxy behind a Unix socket. Registries are reached by CONNECT, so that package managers verify certificates
 * themselves; a plain http registry also by ordinary proxy requests. Every other host and port is refused with 403.
 *
 * registries: origins. The operator chose them, and they may be private. socket: absolute; replaced. lookUpAll: finds the addresses of
 * a host.
 */
export async function openRegistryProxy(
  registries: readonly URL[],
  socket: string,
  lookUpAll: LookUpAll = (host) => lookup(host, { all: true }),
): Promise<RegistryProxy> {
  const places = new Set(registries.map(placeOf))
  const plain = new Set(registries.filter(({ protocol }) => protocol === 'http:').map(placeOf))
  const names = registries.map(({ origin }) => origin).join(', ')
  const refusal = (what: string): string => `${what} is not among the registries that builds may reach: ${names}\n`
  const open = new Set<Socket>()
  const lookUp = openLookup(lookUpAll)

  function refuse(outgoing: ServerResponse, status: number, text: string): void {
    if (outgoing.headersSent) outgoing.destroy()
    else outgoing.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(text)
  }

  function forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const url = URL.parse(incoming.url ?? '')
    if (url?.protocol !== 'http:' || !plain.has(placeOf(url))) {
      refuse(outgoing, 403, refusal(url?.origin ?? 'This address'))
      return
    }
    const headers = Object.fromEntries(Object.entries(incoming.headers).filter(([name]) => !HOP_BY_HOP.includes(name)))
    const onward = ask(url, {
      method: incoming.method,
      headers: { ...headers, host: url.host },
      timeout: IDLE_MS,
      lookup: lookUp,
    })
    onward.once('response', (response) => {
      const kept = Object.entries(response.headers).filter(([name]) => !HOP_BY_HOP.includes(name))
      outgoing.writeHead(response.statusCode ?? 502, Object.fromEntries(kept))
      response.once('error', () => outgoing.destroy())
      response.pipe(outgoing)
    })
    onward.once('timeout', () => onward.destroy(new Error('it was silent for too long')))
    onward.once('error', (error) => refuse(outgoing, 502, `${url.origin} did not answer: ${error.message}\n`))
    outgoing.once('close', () => onward.destroy())
    incoming.pipe(onward)
  }

  function tunnel(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    client.on('error', () => {})
    const place = incoming.url ?? ''
    if (!places.has(place.toLowerCase())) {
      const text = refusal(place)
      client.end(
        `HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
      )
      return
    }
    const colon = place.lastIndexOf(':')
    const origin = connect({
      host: place.slice(0, colon).replaceAll(/[[\]]/g, ''),
      port: Number(place.slice(colon + 1)),
      lookup: lookUp,
    })
    open.add(origin)
    origin.setTimeout(CONNECT_MS)
    let isConnected = false
    origin.once('connect', () => {
      isConnected = true
      origin.setTimeout(IDLE_MS)
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      origin.write(head)
      client.pipe(origin).pipe(client)
    })
    origin.once('timeout', () => origin.destroy())
    origin.on('error', () => {})
    origin.once('close', () => {
      open.delete(origin)
      if (isConnected) client.destroy()
      else client.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
    client.once('close', () => origin.destroy())
  }

  await rm(socket, { force: true })
  const server = createServer(forward).on('connect', tunnel)
  server.maxConnections = CONNECTIONS_MAX
  server.on('connection', (each: Socket) => {
    open.add(each)
    each.once('close', () => open.delete(each))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(socket, resolve)
  })
  // Accessible to any user that builds run as; only the platform can enter the folder above.
  await chmod(socket, 0o666)
  server.unref()
  return {
    socket,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const each of open) each.destroy()
      }),
  }
}
