import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** An address range, as text of RFC 4632: `10.0.0.5`, `10.0.0.0/8`, `fd00::/8`. */
export type Cidr = string

/** All of IPv6 that is given out to the public; the rest is local, translated, or nobody's. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** IETF protocol assignments: Teredo, ORCHID, benchmarking and their like. */
const SPECIAL_PURPOSE = ipaddr.IPv6.parseCIDR('2001::/23')

/** The address itself, or the IPv4 address that an IPv4-mapped one (`::ffff:127.0.0.1`) stands for; undefined for no address. */
function parse(address: string): Address | undefined {
  const version = isIP(address)
  if (version === 0) return undefined
  if (version === 4) return ipaddr.IPv4.parse(address)
  // A URL spells an address without dots (ipaddr.js takes ::8.8.8.8 for a mapped one), and knows no zone of this machine.
  const spelled = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1)
  return spelled === undefined ? undefined : ipaddr.process(spelled)
}

/**
 * Whether an address is one of the public Internet: not loopback, private, link-local, shared, multicast, reserved,
 * documentation, or a translation of another (NAT64, 6to4, Teredo), which could be any of those.
 *
 * address: IPv4 or IPv6 in any notation, without brackets. A text that is no address is not public.
 */
export function isPublicAddress(address: string): boolean {
  const parsed = parse(address)
  if (parsed === undefined || parsed.range() !== 'unicast') return false
  if (parsed instanceof ipaddr.IPv4) return true
  return parsed.match(GLOBAL_UNICAST) && !parsed.match(SPECIAL_PURPOSE)
}

/** Whether an address may be connected to: a public one, or one of the ranges. Throws for a range that is none. */
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
