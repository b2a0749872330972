import { isIP } from 'node:net'

/** The address may not be asked: it is not public, or not http. */
export class RefusedAddress extends Error {
  override name = 'RefusedAddress'
}

/** Names that mean this machine or its network, whatever they resolve to (RFC 6761, RFC 6762, and the private-use .internal). */
const LOCAL_NAME = /(?:^|\.)(?:localhost|local|internal)$/

/**
 * Parses an address that is to be asked, and refuses what can be refused without resolving its name.
 *
 * base: what a redirect's location is relative to. Throws RefusedAddress; its message names the host, and no path or query.
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
 * Parses where a redirect leads, relative to where it came from. Throws RefusedAddress, also for a step from https down to
 * http: what was asked for in private would go on in the open.
 */
export function checkRedirect(location: string, from: URL, isAllowed: (address: string) => boolean): URL {
  const url = checkUrl(location, isAllowed, from)
  if (from.protocol === 'https:' && url.protocol === 'http:')
    throw new RefusedAddress(`${from.host} redirects from https to http`)
  return url
}

/** Throws RefusedAddress unless there is an address and all of them may be asked: one of several could be chosen by chance. */
export function requireAllowed(
  host: string,
  addresses: readonly string[],
  isAllowed: (address: string) => boolean,
): void {
  const refused = addresses.length === 0 ? 'nothing' : addresses.find((address) => !isAllowed(address))
  if (refused === undefined) return
  // The address stays out of it: it would tell what a name means within this network.
  throw new RefusedAddress(refused === 'nothing' ? `${host} has no address` : `${host} is not on the public Internet`)
}

/** A URL's host as names and addresses are compared: without brackets, trailing dots and port. */
export function hostOf({ hostname }: Pick<URL, 'hostname'>): string {
  return hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.+$/, '')
    .toLowerCase()
}
