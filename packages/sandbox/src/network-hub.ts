import { existsSync, readdirSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { createEgressRules, type EgressAllowance, INSIDE, isLinkAddress, linkAddress } from './egress-rules.ts'
import { type Carrier, inNamespace, NAMESPACES } from './network-carrier.ts'
import { quote, runScript } from './run-program.ts'
import { removeVeth } from './veth-carrier.ts'

/** A network that a command has joined. */
export interface JoinedNetwork {
  /** A network namespace, for `nsenter --net`. */
  path: string
  /** Call it once the command has ended. Safe to repeat. */
  leave(): void
}

/**
 * Networks of deployments: a separate network namespace for each, behind one hub that only forwards to public hosts. The hub
 * starts with the first network, and is rebuilt with all of them if what carries its traffic ends.
 */
export interface NetworkHub {
  /** Resolves once the rules are in force. Throws if the network cannot be created: then nothing may be started. */
  join(networkId: string): Promise<JoinedNetwork>
  close(): Promise<void>
}

interface Network {
  index: number
  members: number
  timer: NodeJS.Timeout | undefined
}

export interface NetworkHubOptions {
  /** Short, of `[a-z0-9]`: the prefix of its namespaces' names. */
  id: string
  carrier: Carrier
  allowances: readonly EgressAllowance[]
  /** IPv4 addresses of this machine besides those of this process's own interfaces: closed, too. */
  machineAddresses: readonly string[]
  /** How long a network outlives its last command, in milliseconds. */
  idleMs: number
  onWarning: (message: string) => void
}

/** Each has four addresses, from the start of LINKS. */
const NETWORKS_MAX = 32_000

/** Removes what a hub with this id has left, its program included: cleans up after an earlier process. */
export async function removeNetworks(id: string): Promise<void> {
  await removeVeth(id)
  if (!existsSync(NAMESPACES)) return
  const names = readdirSync(NAMESPACES).filter((name) => name.startsWith(`sandbox-${id}-`))
  // A namespace made in another mount namespace is only a file here.
  for (const name of names) await runScript(`ip netns delete ${quote(name)} || rm -f ${quote(join(NAMESPACES, name))}`)
}

/** Opens a hub. Nothing is started until the first network is joined. */
export function openNetworkHub(options: NetworkHubOptions): NetworkHub {
  const { id, carrier, allowances, machineAddresses, idleMs, onWarning } = options
  const hubName = `sandbox-${id}-hub`
  const nameOf = (index: number): string => `sandbox-${id}-${index}`
  const networks = new Map<string, Network>()
  let isCarried = false
  /** Of the hub's interface to the outside, in bytes. */
  let mtu = 0
  let ruledAddresses: string | undefined
  let isClosed = false

  /** Serialises changes of networks: each follows the one before, whether or not that failed. */
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const next = last.then(change, change)
    last = next.catch(() => undefined)
    return next
  }

  const listMachineAddresses = (): string[] => {
    const own = Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter(({ family, address }) => family === 'IPv4' && !isLinkAddress(address))
      .map(({ address }) => address)
    return [...new Set([...own, ...machineAddresses])].toSorted()
  }

  const applyRules = async (): Promise<void> => {
    const addresses = listMachineAddresses()
    if (addresses.join() === ruledAddresses) return
    const rules = createEgressRules(addresses, allowances)
    await runScript(`${inNamespace(hubName)} nft -f - <<'END'\n${rules}END\n`)
    ruledAddresses = addresses.join()
  }

  const link = (index: number): string => {
    const [hubSide, ownSide] = [linkAddress(4 * index + 1), linkAddress(4 * index + 2)]
    return [
      `ip -batch - <<'END'`,
      `link add name eth0 mtu ${mtu} netns ${nameOf(index)} type veth peer name ${INSIDE}${index} mtu ${mtu} netns ${hubName}`,
      'END',
      `${inNamespace(hubName)} ip -batch - <<'END'`,
      `address add ${hubSide}/30 dev ${INSIDE}${index}`,
      `link set ${INSIDE}${index} up`,
      'END',
      `${inNamespace(nameOf(index))} ip -batch - <<'END'`,
      'link set lo up',
      `address add ${ownSide}/30 dev eth0`,
      'link set eth0 up',
      `route add default via ${hubSide}`,
      'END',
      '',
    ].join('\n')
  }

  const start = async (): Promise<void> => {
    await stop()
    try {
      await build()
    } catch (error) {
      await stop()
      throw error
    }
  }

  /** Creates the hub, rules first, and links every network to it. */
  const build = async (): Promise<void> => {
    const addresses = listMachineAddresses()
    const rules = createEgressRules(addresses, allowances)
    await runScript(
      [
        `ip netns add ${hubName}`,
        `${inNamespace(hubName)} sh -ec '`,
        'nft -f -',
        'echo 1 > /proc/sys/net/ipv4/ip_forward',
        // A kernel without IPv6 has nothing to switch off.
        'if [ -d /proc/sys/net/ipv6 ]; then for each in all default; do echo 1 > /proc/sys/net/ipv6/conf/$each/disable_ipv6; done; fi',
        `' <<'END'\n${rules}END`,
      ].join('\n'),
    )
    ruledAddresses = addresses.join()
    mtu = await carrier.open(hubName, (reason) => {
      isCarried = false
      if (isClosed) return
      onWarning(`The network of Functions ended, and is started anew: ${reason}`)
      restart()
    })
    isCarried = true
    for (const { index } of networks.values())
      await runScript(`${inNamespace(nameOf(index))} ip link delete eth0 2> /dev/null || true\n${link(index)}`)
  }

  const restart = (): void => {
    void inTurn(async () => {
      if (isClosed || isCarried || networks.size === 0) return
      await start()
    }).catch((error: unknown) =>
      // The next command that joins a network tries again.
      onWarning(`The network of Functions could not be started: ${error instanceof Error ? error.message : 'unknown'}`),
    )
  }

  const stop = async (): Promise<void> => {
    isCarried = false
    ruledAddresses = undefined
    await carrier.close()
    await runScript(`if [ -e ${quote(join(NAMESPACES, hubName))} ]; then ip netns delete ${hubName}; fi`)
  }

  const removeNetwork = (networkId: string): Promise<void> =>
    inTurn(async () => {
      const network = networks.get(networkId)
      if (network === undefined || network.members > 0) return
      networks.delete(networkId)
      // Its end in the hub would disappear some time after the namespace, and block the next network of this number.
      await runScript(
        `${inNamespace(hubName)} ip link delete ${INSIDE}${network.index} 2> /dev/null || true\nip netns delete ${nameOf(network.index)}`,
      )
      if (networks.size === 0) await stop()
    })

  const createNetwork = async (networkId: string): Promise<Network> => {
    const taken = new Set([...networks.values()].map(({ index }) => index))
    let index = 1
    while (taken.has(index)) index += 1
    if (index > NETWORKS_MAX) throw new Error(`There are ${NETWORKS_MAX} networks of deployments on this machine`)
    await runScript(`ip netns add ${nameOf(index)}`)
    const network: Network = { index, members: 0, timer: undefined }
    try {
      await runScript(link(index))
    } catch (error) {
      await runScript(`ip netns delete ${nameOf(index)}`)
      throw error
    }
    networks.set(networkId, network)
    return network
  }

  return {
    join: (networkId) =>
      inTurn(async () => {
        if (isClosed) throw new Error('The networks of Functions are closed')
        if (!isCarried) await start()
        else await applyRules()
        const network = networks.get(networkId) ?? (await createNetwork(networkId))
        clearTimeout(network.timer)
        network.members += 1
        let isMember = true
        return {
          path: join(NAMESPACES, nameOf(network.index)),
          leave: () => {
            if (!isMember) return
            isMember = false
            network.members -= 1
            if (network.members > 0 || isClosed) return
            network.timer = setTimeout(() => {
              removeNetwork(networkId).catch((error: unknown) =>
                onWarning(`A network of Functions stays: ${error instanceof Error ? error.message : 'unknown'}`),
              )
            }, idleMs)
            network.timer.unref()
          },
        }
      }),
    close: () => {
      isClosed = true
      return inTurn(async () => {
        for (const { timer } of networks.values()) clearTimeout(timer)
        networks.clear()
        await stop()
        await removeNetworks(id)
      })
    },
  }
}
