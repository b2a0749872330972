import { isIP } from 'node:net'

/** The address may not be requested: it is not public, or not http. */
export class RefusedAddress extends Error {
  override name = 'RefusedAddress'
}

/** Names that mean this machine or its network, whatever they resolve to (RFC 6761, RFC 6762, and the private-use .internal). */
const LOCAL_NAME = /(?:^|\.)(?:localhost|local|internal)$/

/**
 * Parses a URL to be requested, and rejects what can be rejected without resolving its name.
 *
 * base: for the relative location of a redirect. Throws RefusedAddress; its message names the host, but no path or query.
 */
export function checkUrl(address: string, isAllowed: (address: string) => boolean, base?: URL): URL {
  const url = URL.parse(address, base?.href)
  if (url === null) throw new RefusedAddress('This is no address')
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new RefusedAddress(`Only http and https are asked, not ${url.protocol}`)
  if (url.username !== '' || url.password !== '')
    throw new RefusedAddress('An address must not hold a user name or password')
  const host = hostOf(url)
  if (LOCAL_NAME.test(host)) throw new RefusedAddress(`${host} is a local name`)
  if (isIP(host) !== 0) requireAllowed(host, [host], isAllowed)
  url.hash = ''
  return url
}

/**
 * Parses the target of a redirect, relative to its origin. Throws RefusedAddress, also for a step from https down to http: a
 * request made in private would continue in the open.
 */
export function checkRedirect(location: string, from: URL, isAllowed: (address: string) => boolean): URL {
  const url = checkUrl(location, isAllowed, from)
  if (from.protocol === 'https:' && url.protocol === 'http:')
    throw new RefusedAddress(`${from.host} redirects from https to http`)
  return url
}

/** Throws RefusedAddress unless there is at least one address and all of them are allowed: the connection may pick any of them. */
export function requireAllowed(
  host: string,
  addresses: readonly string[],
  isAllowed: (address: string) => boolean,
): void {
  const refused = addresses.length === 0 ? 'nothing' : addresses.find((address) => !isAllowed(address))
  if (refused === undefined) return
  // The message omits the address, which would reveal what a name resolves to within this network.
  throw new RefusedAddress(refused === 'nothing' ? `${host} has no address` : `${host} is not on the public Internet`)
}

/** Returns a URL's host in comparable form: without brackets, trailing dots and port. */
export function hostOf({ hostname }: Pick<URL, 'hostname'>): string {
  return hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.+$/, '')
    .toLowerCase()
}
