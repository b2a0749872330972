import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

/**
 * Returns the address that a request counts for (D56): the socket's peer, or, behind trusted proxies, the rightmost hop of
 * X-Forwarded-For that is not a trusted proxy. IPv4-mapped IPv6 is unmapped, IPv6 is cut to its /64.
 */
export interface ClientAddress {
  (peer: string | undefined, forwardedFor: string | undefined): string
  /** Returns the address uncut. */
  exact(peer: string | undefined, forwardedFor: string | undefined): string
  /** True if the peer is a trusted proxy, whose headers are believed. */
  isTrusted(peer: string | undefined): boolean
}

/** Maximum number of cached addresses. */
const ASKED_MAX = 10_000

const unmap = (address: string): string => {
  if (!address.startsWith('::')) return address
  const [, v4] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  return v4 ?? address
}

/** Strips the port that some proxies add to a hop of X-Forwarded-For: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withoutPort = (hop: string): string => {
  const [, bracketed, v4] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/.exec(hop) ?? []
  return bracketed ?? v4 ?? hop
}

/** The eight groups of an IPv6 address, without leading zeros. */
function groups(address: string): string[] {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  return [...left, ...Array<string>(Math.max(zeros, 0)).fill('0'), ...right].map((group) =>
    group.replace(/^0+(?=.)/, '').toLowerCase(),
  )
}

/** What an address counts as: IPv6 is cut to its /64 (D56). */
export const networkOf = (address: string): string =>
  address.includes(':') && isIPv6(address) ? `${groups(address).slice(0, 4).join(':')}::/64` : address

/** True for an IP address and for a CIDR range such as 10.0.0.0/8. */
export function isAddressOrRange(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  const bitsMax = isIPv4(address) ? 32 : 128
  return (
    isIP(address) !== 0 &&
    more.length === 0 &&
    (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax))
  )
}

/** trusted: addresses and CIDR ranges of proxies. Throws on anything else. */
export function createClientAddress(trusted: readonly string[]): ClientAddress {
  const proxies = new BlockList()
  for (const entry of trusted) {
    if (!isAddressOrRange(entry)) throw new Error(`${entry} is not an address or a CIDR range`)
    const [address = '', bits] = entry.split('/')
    const family = isIPv4(address) ? 'ipv4' : 'ipv6'
    if (bits === undefined) proxies.addAddress(address, family)
    else proxies.addSubnet(address, Number(bits), family)
  }
  // Every request looks up its proxy, and BlockList takes longer than a Map.
  const proxyByAddress = new Map<string, boolean>()
  const isProxy = (address: string): boolean => {
    let isOne = proxyByAddress.get(address)
    if (isOne === undefined) {
      isOne = proxies.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
      if (proxyByAddress.size >= ASKED_MAX) proxyByAddress.clear()
      proxyByAddress.set(address, isOne)
    }
    return isOne
  }

  const exact = (peer: string | undefined, forwardedFor: string | undefined): string => {
    let address = unmap(peer ?? '')
    if (trusted.length === 0 || forwardedFor === undefined) return address
    const hops = forwardedFor.split(',').map((hop) => unmap(withoutPort(hop.trim())))
    while (isIP(address) && isProxy(address)) {
      const hop = hops.pop()
      if (hop === undefined || !isIP(hop)) break
      address = hop
    }
    return address
  }
  const addressOf = (peer: string | undefined, forwardedFor: string | undefined): string =>
    networkOf(exact(peer, forwardedFor))
  return Object.assign(addressOf, {
    exact,
    isTrusted(peer: string | undefined) {
      const address = unmap(peer ?? '')
      return isIP(address) !== 0 && isProxy(address)
    },
  })
}
