import type { Addressing } from '@platform/s3-protocol/wire/raw-target'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'

/** S3 on the API's own origin. */
const BELOW_PREFIX: Addressing = { kind: 'prefix', prefix: '/s3' }

/** Where a listener serves S3: below `/s3` of the API's own origin, or at the root of another, where buckets may be hosts. */
export type Place = 'prefix' | 'root'

/** How a request to a listener names its bucket. */
export function addressingAt(deps: Names, place: Place, host: string): Addressing {
  if (place === 'prefix') return BELOW_PREFIX
  const addressing = addressingOf(deps, host)
  return addressing?.kind === 'host' ? addressing : { kind: 'root' }
}

/** Drops the port, and the dot that ends a fully qualified name. */
const withoutPort = (host: string): string => host.replace(/\.?(:\d*)?$/, '')

const publicHosts = new Map<string, string>()
function hostOf(url: string): string {
  let host = publicHosts.get(url)
  if (host === undefined) {
    host = new URL(url).host
    publicHosts.set(url, host)
  }
  return host
}

type Names = Pick<StorageDeps, 'publicUrl' | 's3Domain'>

/**
 * The addressing that a host implies by itself: S3_DOMAIN has S3 at its root and buckets below it; the API's own origin, which
 * may lie below it too, has S3 by its prefix. undefined for any other host, where the port of the listener decides.
 */
export function addressingOf({ publicUrl, s3Domain }: Names, host: string): Addressing | undefined {
  if (s3Domain === undefined) return undefined
  const lowerHost = host.toLowerCase()
  if (lowerHost === hostOf(publicUrl)) return BELOW_PREFIX
  const name = withoutPort(lowerHost)
  const domain = withoutPort(s3Domain)
  if (name === domain) return { kind: 'root' }
  return name.endsWith(`.${domain}`) ? { kind: 'host', bucket: name.slice(0, -domain.length - 1) } : undefined
}

/** True for S3_DOMAIN and the hosts below it, which the API's port serves as S3's own port does. */
export const isS3Host = (names: Names, host: string): boolean =>
  (addressingOf(names, host)?.kind ?? 'prefix') !== 'prefix'

/** The first value of a header set by a trusted proxy; undefined if there is none. */
function forwarded({ deps, incoming }: RawExchange<StorageDeps>, name: string): string | undefined {
  const value = incoming.headers[name]
  if (typeof value !== 'string' || !deps.clientAddress.isTrusted(incoming.socket.remoteAddress)) return undefined
  return value.split(',', 1)[0]?.trim()
}

/**
 * The hosts that a client may have signed, likeliest first: Host as received, the host that a trusted proxy reports and, on the
 * API's own origin, the configured one. A host that names a bucket counts only for requests to that bucket; otherwise a
 * signature for an object of one bucket would be valid for an object of another. The two other kinds cannot be confused, since
 * no bucket can be named `s3`: the name is too short (D34).
 */
export function signedHosts(exchange: RawExchange<StorageDeps>, addressing: Addressing): string[] {
  const { deps, incoming } = exchange
  const hosts = [incoming.headers.host ?? '', forwarded(exchange, 'x-forwarded-host') ?? '']
  if (addressing.kind === 'prefix') hosts.push(hostOf(deps.publicUrl))
  const bucket = addressing.kind === 'host' ? addressing.bucket : undefined
  return [...new Set(hosts)].filter((host) => {
    const named = addressingOf(deps, host)
    return host !== '' && (named?.kind === 'host' ? named.bucket : undefined) === bucket
  })
}

/**
 * The origin that a client used: the configured one for `/s3`; elsewhere its Host, or the host that a trusted proxy reports.
 * The scheme is that of PUBLIC_URL unless such a proxy reports another.
 */
export function askedOrigin(exchange: RawExchange<StorageDeps>, addressing: Addressing): string {
  const { publicUrl } = exchange.deps
  if (addressing.kind === 'prefix') return publicUrl
  const scheme = forwarded(exchange, 'x-forwarded-proto') ?? ''
  const protocol = /^https?$/i.test(scheme) ? `${scheme.toLowerCase()}:` : new URL(publicUrl).protocol
  return `${protocol}//${signedHosts(exchange, addressing).at(-1) ?? exchange.incoming.headers.host}`
}
