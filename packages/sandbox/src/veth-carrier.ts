import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { linkAddress, NAME_SERVER, OUTSIDE } from './egress-rules.ts'
import { isInMachineNetwork } from './machine-namespaces.ts'
import { type Carrier, inNamespace } from './network-carrier.ts'
import { runScript } from './run-program.ts'

/** Of the link, if this process's namespace has no default route. */
const MTU = 1_500
/** How often link and forwarding are looked at: nothing tells when somebody else changes them. */
const WATCH_MS = 1_000
/** The rules are looked at this many times less often, since that takes a program. */
const RULES_EVERY = 10
/** Links of hubs lie between those of networks and pasta's, four addresses each: one namespace may hold several hubs. */
const HUBS_FROM = 0x1_f6_00
const HUBS_MAX = 512

/** The link's end in this process's namespace, and the table of rules there. id: of a hub. */
const LINKS_OF_HUBS = 'hub-'
const linkOf = (id: string): string => `${LINKS_OF_HUBS}${id}`
const tableOf = (id: string): string => `sandbox_${id}`

/** Where this namespace says whether it passes packets on. */
const FORWARDING = '/proc/sys/net/ipv4/ip_forward'
/** A chain of the table where nothing was passed on before the first hub. */
const OTHERS = 'others'

/** Addresses of the link. */
interface LinkAddresses {
  subnet: string
  /** This process's end. */
  gateway: string
  hub: string
}

/** All that a hub may take, those first that others probably have not. */
function* listAddresses(id: string): Generator<LinkAddresses> {
  const first = Number.parseInt(id, 36) % HUBS_MAX
  for (let tried = 0; tried < HUBS_MAX; tried++) {
    const from = HUBS_FROM + 4 * ((first + tried) % HUBS_MAX)
    yield { subnet: `${linkAddress(from)}/30`, gateway: linkAddress(from + 1), hub: linkAddress(from + 2) }
  }
}

const listOwnAddresses = (): Set<string> =>
  new Set(Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address)))

/** The first IPv4 name server of /etc/resolv.conf that is another host. Throws an Error for the operator if there is none. */
function readResolver(): string {
  const text = existsSync('/etc/resolv.conf') ? readFileSync('/etc/resolv.conf', 'utf8') : ''
  const servers = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)].map(([, server = '']) => server)
  const own = listOwnAddresses()
  const server = servers.find((each) => isIPv4(each) && !each.startsWith('127.') && !own.has(each))
  if (server !== undefined) return server
  throw new Error(
    `names are asked of a name server at another IPv4 address, and /etc/resolv.conf has ${servers.join(', ') || 'none'}`,
  )
}

/**
 * Rules of this process's namespace, for `nft -f`; they atomically replace earlier ones of the same hub. What comes by the link
 * goes out under this process's address and nowhere else, above all not to this namespace itself; only answers go back.
 *
 * isHubAlone: nothing else passes through this namespace, as before the first hub.
 */
function createOwnRules(id: string, hub: string, resolver: string, isHubAlone: boolean): string {
  const link = linkOf(id)
  const table = tableOf(id)
  return [
    `table inet ${table}`,
    `delete table inet ${table}`,
    `table inet ${table} {`,
    // Another host of the network could send in the hub's name, and so in this process's.
    'chain forged {',
    'type filter hook prerouting priority -150; policy accept;',
    `iifname != "${link}" ip saddr ${hub} drop`,
    '}',
    'chain resolve {',
    'type nat hook prerouting priority -100; policy accept;',
    `iifname "${link}" ip daddr ${NAME_SERVER} meta l4proto { tcp, udp } th dport 53 dnat ip to ${resolver}`,
    '}',
    'chain forward {',
    'type filter hook forward priority 0; policy accept;',
    // What belongs to no connection would leave with the hub's address.
    `iifname "${link}" ct state invalid drop`,
    `iifname "${link}" oifname != "${link}" ip saddr ${hub} accept`,
    `iifname "${link}" drop`,
    `oifname "${link}" ct state established,related accept`,
    `oifname "${link}" drop`,
    '}',
    ...(isHubAlone
      ? [
          `chain ${OTHERS} {`,
          'type filter hook forward priority 0; policy accept;',
          `iifname != "${LINKS_OF_HUBS}*" oifname != "${LINKS_OF_HUBS}*" drop`,
          '}',
        ]
      : []),
    'chain input {',
    'type filter hook input priority 0; policy accept;',
    `iifname "${link}" drop`,
    '}',
    'chain leave {',
    'type nat hook postrouting priority 100; policy accept;',
    `ip saddr ${hub} oifname != "${link}" masquerade`,
    '}',
    '}',
    '',
  ].join('\n')
}

/** Why no hub can be linked to this process's namespace; undefined if one can. Needs root. id: of the hub, which does not run. */
export async function findVethObstacle(id: string): Promise<string | undefined> {
  if (isInMachineNetwork())
    return "FUNCTION_NETWORK=veth would change the machine's own network: it is for a process in a network namespace of its own, such as a pod's"
  try {
    const rules = createOwnRules(id, linkAddress(HUBS_FROM), readResolver(), true)
    // The kernel checks the rules without putting them in force; forwarding stays as it is, and the link goes.
    await runScript(
      [
        `nft --check -f - <<'END'\n${rules}END`,
        `now=$(cat ${FORWARDING})`,
        `echo $now > ${FORWARDING}`,
        `ip link add name ${linkOf(id)} type veth peer name end-${id}`,
        `ip link delete ${linkOf(id)}`,
      ].join('\n'),
    )
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : 'unknown'
  }
}

/**
 * Removes what a hub with this id has left in this process's namespace: its link, its rules, and with the last hub the forwarding
 * that was off before. Safe to repeat.
 */
export async function removeVeth(id: string): Promise<void> {
  if (isInMachineNetwork()) return
  await runScript(
    [
      `ip link delete ${linkOf(id)} 2> /dev/null || true`,
      `rules=$(nft list table inet ${tableOf(id)} 2> /dev/null) || exit 0`,
      // Before the rules go that keep others from being passed on.
      `if echo "$rules" | grep -q "chain ${OTHERS} " && ! ip -brief link | grep -q "^${LINKS_OF_HUBS}"; then echo 0 > ${FORWARDING}; fi`,
      `nft delete table inet ${tableOf(id)}`,
    ].join('\n'),
  )
}

/** The smallest MTU on the way of the default route, in bytes. */
async function readMtu(): Promise<number> {
  interface Route {
    dev?: string
    nexthops?: { dev: string }[]
    metrics?: { mtu?: number }[]
  }
  const [route] = JSON.parse(await runScript('ip -4 -json route show default')) as Route[]
  if (route === undefined) return MTU
  const links = JSON.parse(await runScript('ip -json link')) as { ifname: string; mtu: number }[]
  const names = [route.dev, ...(route.nexthops ?? []).map(({ dev }) => dev)]
  const ofLinks = links.filter(({ ifname }) => names.includes(ifname)).map(({ mtu }) => mtu)
  return Math.min(...ofLinks, ...(route.metrics ?? []).flatMap(({ mtu }) => mtu ?? []), 65_535)
}

/** Gives the link addresses that no other hub of this namespace has: the kernel takes a route to them once. */
async function takeAddresses(id: string): Promise<LinkAddresses> {
  const link = linkOf(id)
  for (const addresses of listAddresses(id)) {
    const { subnet, gateway } = addresses
    const add = `address add ${gateway}/30 dev ${link} noprefixroute\nroute add ${subnet} dev ${link} src ${gateway}`
    const isTaken = await runScript(
      `if said=$(ip -batch - 2>&1 <<'END'\n${add}\nEND\n); then exit 0; fi\nip address flush dev ${link}\ncase "$said" in *"File exists"*) echo taken;; *) echo "$said" >&2; exit 1;; esac`,
    )
    if (isTaken === '') return addresses
  }
  throw new Error(`There are ${HUBS_MAX} hubs of networks in this network namespace`)
}

/**
 * Carries by a pair of virtual interfaces into this process's own network namespace, whose rules translate addresses: for
 * namespaces that belong to this process alone, such as a pod's, where there is no /dev/net/tun.
 */
export function createVethCarrier(id: string): Carrier {
  const link = linkOf(id)
  let watch: NodeJS.Timeout | undefined

  /** What is no longer as `open` left it. */
  const findFault = async (looks: number): Promise<string | undefined> => {
    try {
      if (networkInterfaces()[link] === undefined) return `its link ${link} is gone or down`
      // Another hub that was the last to go may have switched it off.
      if (readFileSync(FORWARDING, 'latin1').startsWith('0')) writeFileSync(FORWARDING, '1')
      if (looks % RULES_EVERY > 0) return undefined
      const tables = await runScript('nft list tables')
      return tables.split('\n').includes(`table inet ${tableOf(id)}`) ? undefined : 'its rules were removed'
    } catch {
      // No file descriptor is free: the next look may find one.
      return undefined
    }
  }

  return {
    async open(name, onEnd) {
      const resolver = readResolver()
      const mtu = await readMtu()
      const wasOff = readFileSync(FORWARDING, 'latin1').startsWith('0')
      const isHubAlone = wasOff || (await runScript('nft list chains inet')).includes(`chain ${OTHERS} `)
      await runScript(
        [
          `ip link add name ${link} mtu ${mtu} type veth peer name ${OUTSIDE} mtu ${mtu} netns ${name}`,
          `if [ -d /proc/sys/net/ipv6/conf/${link} ]; then echo 1 > /proc/sys/net/ipv6/conf/${link}/disable_ipv6; fi`,
          `ip link set ${link} up`,
        ].join('\n'),
      )
      const { gateway, hub } = await takeAddresses(id)
      // The hub's end goes up last, when the rules are in force.
      await runScript(
        [
          `nft -f - <<'END'\n${createOwnRules(id, hub, resolver, isHubAlone)}END`,
          `echo 1 > ${FORWARDING}`,
          `${inNamespace(name)} ip -batch - <<'END'`,
          `address add ${hub}/30 dev ${OUTSIDE}`,
          `link set ${OUTSIDE} up`,
          `route add default via ${gateway}`,
          'END',
        ].join('\n'),
      )
      let looks = 0
      const own = setInterval(() => void look(), WATCH_MS).unref()
      const look = async (): Promise<void> => {
        const fault = await findFault((looks += 1))
        if (fault === undefined || watch !== own) return
        clearInterval(own)
        watch = undefined
        onEnd(fault)
      }
      watch = own
      return mtu
    },
    async close() {
      clearInterval(watch)
      watch = undefined
      await removeVeth(id)
    },
  }
}
