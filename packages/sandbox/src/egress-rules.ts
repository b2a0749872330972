import ipaddr from 'ipaddr.js'

/** A host or range that commands may reach besides public ones. */
export interface EgressAllowance {
  /** IPv4, as `10.0.0.0/8`. */
  range: string
  /** undefined: every port. */
  port: number | undefined
}

/** The name server of commands; forwarded to the machine's own resolver. A documentation address, which nobody owns. */
export const NAME_SERVER = '198.51.100.53'
/** Links between the hub, each network and the outside. A benchmarking range, which no network of the machine uses. */
const LINKS = '198.18.0.0/15'

/** The address at an offset from the start of LINKS, up to 131,071. */
export const linkAddress = (offset: number): string =>
  `198.${18 + (offset >> 16)}.${(offset >> 8) & 255}.${offset & 255}`
/** Whether an IPv4 address is one of LINKS. */
export const isLinkAddress = (address: string): boolean => /^198\.1[89]\./.test(address)

/**
 * Every IPv4 range that is not public. IPv6 is not routed at all: networks get no addresses, and nothing is forwarded.
 * 203.0.113.0/24 (documentation) stays open: nobody is there, and tests put their public hosts there.
 */
const CLOSED = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  LINKS,
  '198.51.100.0/24',
  '224.0.0.0/3',
]

/**
 * Reads an entry of FUNCTION_EGRESS_ALLOW: an IPv4 address or range, with a port if wanted: `10.0.0.5`, `10.0.0.0/24`, `10.0.0.5:5432`.
 * Throws RangeError for anything else, host names and IPv6 included.
 */
export function parseEgressAllowance(text: string): EgressAllowance {
  const [, address = '', port] = /^([^:]+?)(?::(\d{1,5}))?$/.exec(text.trim()) ?? []
  const whole = address.includes('/') ? address : `${address}/32`
  const isRange = /^\d+\.\d+\.\d+\.\d+\/\d+$/.test(whole) && ipaddr.IPv4.isValidCIDR(whole)
  if (!isRange || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)))
    throw new RangeError(`${text} is no IPv4 address or range, such as 10.0.0.5, 10.0.0.0/24 or 10.0.0.5:5432`)
  return { range: whole, port: port === undefined ? undefined : Number(port) }
}

/**
 * Connections of one network at a time. All networks share the kernel's connection table, and pasta's file descriptors or
 * the ports of this process's namespace: one network could exhaust them.
 */
const CONNECTIONS_MAX = 4_096

/** The hub's interface to the outside, and the name prefix of those to networks. */
export const OUTSIDE = 'outside'
export const INSIDE = 'net'

/**
 * Rules of the hub, for `nft -f`; they atomically replace earlier ones. Traffic from a network may go to the name server, to
 * allowed ranges, or to public hosts other than this machine; never to another network, or to the hub itself.
 *
 * They keep no state but the number of connections: replies are let in because nothing else arrives on that interface.
 * machineAddresses: IPv4 addresses of this machine, which may be public ones.
 */
export function createEgressRules(machineAddresses: readonly string[], allowances: readonly EgressAllowance[]): string {
  const allowed = allowances.map(({ range, port }) =>
    port === undefined
      ? `ip daddr ${range} oifname "${OUTSIDE}" accept`
      : `ip daddr ${range} oifname "${OUTSIDE}" meta l4proto { tcp, udp } th dport ${port} accept`,
  )
  const ownHosts = machineAddresses.length === 0 ? [] : [`ip daddr { ${machineAddresses.join(', ')} } goto refuse`]
  const fromInside = [
    'meta nfproto != ipv4 goto refuse',
    `ct state new add @connections { ip saddr ct count over ${CONNECTIONS_MAX} } goto refuse`,
    `ip daddr ${NAME_SERVER} meta l4proto { tcp, udp } th dport 53 oifname "${OUTSIDE}" accept`,
    ...allowed,
    ...ownHosts,
    `ip daddr { ${CLOSED.join(', ')} } goto refuse`,
    `oifname "${OUTSIDE}" accept`,
  ]
  return [
    'table inet walls',
    'delete table inet walls',
    'table inet walls {',
    'set connections { type ipv4_addr; size 65535; flags dynamic; }',
    // A reset answers at once; ICMP is limited to one a second.
    'chain refuse {',
    'meta l4proto tcp reject with tcp reset',
    'reject with icmpx type admin-prohibited',
    '}',
    'chain inside {',
    ...fromInside,
    '}',
    'chain forward {',
    'type filter hook forward priority 0; policy drop;',
    `iifname "${INSIDE}*" goto inside`,
    `iifname "${OUTSIDE}" oifname "${INSIDE}*" accept`,
    '}',
    'chain input {',
    'type filter hook input priority 0; policy drop;',
    `iifname "${INSIDE}*" goto refuse`,
    '}',
    '}',
    'table inet translation',
    'delete table inet translation',
    'table inet translation {',
    'chain leave {',
    'type nat hook postrouting priority 100; policy accept;',
    `oifname "${OUTSIDE}" masquerade`,
    '}',
    '}',
    '',
  ].join('\n')
}
