import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** An address range in RFC 4632 notation: `10.0.0.5`, `10.0.0.0/8`, `fd00::/8`. */
export type Cidr = string

/** All publicly assigned IPv6; the rest is local, translated, or unassigned. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** IETF protocol assignments: Teredo, ORCHID, benchmarking and others. */
const SPECIAL_PURPOSE = ipaddr.IPv6.parseCIDR('2001::/23')

/** Parses an address; an IPv4-mapped one (`::ffff:127.0.0.1`) becomes IPv4. Returns undefined for anything else. */
function parse(address: string): Address | undefined {
  const version = isIP(address)
  if (version === 0) return undefined
  if (version === 4) return ipaddr.IPv4.parse(address)
  // A URL normalizes the address to a form without dots (ipaddr.js takes ::8.8.8.8 for a mapped one), and rejects zone ids.
  const spelled = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1)
  return spelled === undefined ? undefined : ipaddr.process(spelled)
}

/**
 * True for an address of the public Internet: not loopback, private, link-local, shared, multicast, reserved, documentation, or a
 * translation of another (NAT64, 6to4, Teredo), which could be any of those.
 *
 * address: IPv4 or IPv6 in any notation, without brackets. False for anything else.
 */
export function isPublicAddress(address: string): boolean {
  const parsed = parse(address)
  if (parsed === undefined || parsed.range() !== 'unicast') return false
  if (parsed instanceof ipaddr.IPv4) return true
  return parsed.match(GLOBAL_UNICAST) && !parsed.match(SPECIAL_PURPOSE)
}

/** Returns a function that says whether an address is allowed: public, or in one of the ranges. Throws for an invalid range. */
export function createAddressGuard(allow: readonly Cidr[]): (address: string) => boolean {
  const ranges = allow.map(parseRange)
  return (address) => {
    if (isPublicAddress(address)) return true
    const parsed = parse(address)
    return (
      parsed !== undefined &&
      ranges.some(([range, bits]) => parsed.kind() === range.kind() && parsed.match(range, bits))
    )
  }
}

function parseRange(text: Cidr): [Address, number] {
  const whole = text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`
  if (!ipaddr.isValidCIDR(whole))
    throw new RangeError(`${text} is no address or range of addresses, such as 10.0.0.5 or fd00::/8`)
  return ipaddr.parseCIDR(whole)
}
