import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { createEgressRules, type EgressAllowance, INSIDE, NAME_SERVER, OUTSIDE } from './egress-rules.ts'
import { quote, runScript, SYSTEM_PATH } from './run-program.ts'

/** A network that a command has joined. */
export interface JoinedNetwork {
  /** A network namespace, for `nsenter --net`. */
  path: string
  /** Call it once the command has ended. Safe to repeat. */
  leave(): void
}

/**
 * Networks of deployments: a separate network namespace for each, behind one hub that only forwards to public hosts. The hub
 * starts with the first network, and is rebuilt with all of them if its program ends.
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
  /** Absolute; holds the pid file of its process. */
  folder: string
  allowances: readonly EgressAllowance[]
  /** How long a network outlives its last command, in milliseconds. */
  idleMs: number
  onWarning: (message: string) => void
}

/** Four addresses per network, from the start of LINKS; the hub's own are at the end. */
const NETWORKS_MAX = 32_000
const addressOf = (offset: number): string => `198.${18 + (offset >> 16)}.${(offset >> 8) & 255}.${offset & 255}`
const HUB_ADDRESS = '198.19.255.2'
const GATEWAY = '198.19.255.1'
/** The MTU of pasta's own interface. A smaller one would make it split what it sends. */
const MTU = 65_520

const FOLDER = '/run/netns'

/** Removes the namespaces of a hub with this id, and so ends its program: cleans up after an earlier process. */
export async function removeNetworks(id: string): Promise<void> {
  if (!existsSync(FOLDER)) return
  const names = readdirSync(FOLDER).filter((name) => name.startsWith(`sandbox-${id}-`))
  // A namespace made in another mount namespace is only a file here.
  for (const name of names) await runScript(`ip netns delete ${quote(name)} || rm -f ${quote(join(FOLDER, name))}`)
}

/** Opens a hub. Nothing is started until the first network is joined. */
export function openNetworkHub({ id, folder, allowances, idleMs, onWarning }: NetworkHubOptions): NetworkHub {
  const hubName = `sandbox-${id}-hub`
  const nameOf = (index: number): string => `sandbox-${id}-${index}`
  const networks = new Map<string, Network>()
  let program: ChildProcess | undefined
  let ruledAddresses: string | undefined
  let isClosed = false

  /** Serialises changes of networks: each follows the one before, whether or not that failed. */
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const next = last.then(change, change)
    last = next.catch(() => undefined)
    return next
  }

  const listMachineAddresses = (): string[] =>
    Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter(({ family }) => family === 'IPv4')
      .map(({ address }) => address)
      .toSorted()

  const applyRules = async (): Promise<void> => {
    const addresses = [...new Set(listMachineAddresses())]
    if (addresses.join() === ruledAddresses) return
    const rules = createEgressRules(addresses, allowances)
    await runScript(`nsenter --net=${quote(join(FOLDER, hubName))} nft -f - <<'END'\n${rules}END\n`)
    ruledAddresses = addresses.join()
  }

  const link = (index: number): string => {
    const [hubSide, ownSide] = [addressOf(4 * index + 1), addressOf(4 * index + 2)]
    return [
      `ip -batch - <<'END'`,
      `link add name eth0 mtu ${MTU} netns ${nameOf(index)} type veth peer name ${INSIDE}${index} mtu ${MTU} netns ${hubName}`,
      'END',
      `ip -netns ${hubName} -batch - <<'END'`,
      `address add ${hubSide}/30 dev ${INSIDE}${index}`,
      `link set ${INSIDE}${index} up`,
      'END',
      `ip -netns ${nameOf(index)} -batch - <<'END'`,
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
    const pidFile = join(folder, 'pasta.pid')
    rmSync(pidFile, { force: true })
    const rules = createEgressRules([...new Set(listMachineAddresses())], allowances)
    await runScript(
      [
        `ip netns add ${hubName}`,
        `nsenter --net=${quote(join(FOLDER, hubName))} sh -ec '`,
        'nft -f -',
        'echo 1 > /proc/sys/net/ipv4/ip_forward',
        // A kernel without IPv6 has nothing to switch off.
        'if [ -d /proc/sys/net/ipv6 ]; then for each in all default; do echo 1 > /proc/sys/net/ipv6/conf/$each/disable_ipv6; done; fi',
        `' <<'END'\n${rules}END`,
      ].join('\n'),
    )
    ruledAddresses = [...new Set(listMachineAddresses())].join()
    // prettier-ignore
    const args = [
      '--pdeathsig', 'KILL', 'pasta', '--foreground', '--quiet', '--pid', pidFile, '--runas', '0:0', '--netns-only',
      '--config-net', '--ipv4-only', '--ns-ifname', OUTSIDE, '--address', HUB_ADDRESS, '--netmask', '30', '--gateway', GATEWAY,
      '--tcp-ports', 'none', '--udp-ports', 'none', '--tcp-ns', 'none', '--udp-ns', 'none', '--no-map-gw',
      '--dns-forward', NAME_SERVER, '--netns', join(FOLDER, hubName),
    ]
    const child = spawn('setpriv', args, { env: { PATH: SYSTEM_PATH }, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => {
      // Without a system log, pasta complains about that after every line.
      said = `${said}${chunk.toString().replaceAll(/^Failed to send .* syslog$\n?/gm, '')}`.slice(-2000)
    })
    program = child
    await new Promise<void>((resolve, reject) => {
      const until = Date.now() + 10_000
      const look = setInterval(() => {
        if (existsSync(pidFile)) settle()
        else if (Date.now() > until) settle(new Error('pasta did not start within 10 s'))
      }, 3)
      const settle = (error?: Error): void => {
        clearInterval(look)
        child.removeListener('exit', exited)
        child.removeListener('error', settle)
        if (error === undefined) resolve()
        else reject(error)
      }
      const exited = (): void => settle(new Error(`pasta did not start: ${said.trim()}`))
      child.on('exit', exited)
      child.on('error', settle)
    })
    child.on('error', () => undefined)
    child.on('exit', (code, signal) => {
      if (program !== child || isClosed) return
      program = undefined
      onWarning(`The network of Functions ended (${signal ?? code}) and is started anew. ${said.trim()}`.trim())
      restart()
    })
    for (const { index } of networks.values())
      await runScript(`ip -netns ${nameOf(index)} link delete eth0 2> /dev/null || true\n${link(index)}`)
  }

  const restart = (): void => {
    void inTurn(async () => {
      if (isClosed || program !== undefined || networks.size === 0) return
      await start()
    }).catch((error: unknown) =>
      // The next command that joins a network tries again.
      onWarning(`The network of Functions could not be started: ${error instanceof Error ? error.message : 'unknown'}`),
    )
  }

  const stop = async (): Promise<void> => {
    const child = program
    program = undefined
    ruledAddresses = undefined
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    }
    await runScript(`if [ -e ${quote(join(FOLDER, hubName))} ]; then ip netns delete ${hubName}; fi`)
  }

  const removeNetwork = (networkId: string): Promise<void> =>
    inTurn(async () => {
      const network = networks.get(networkId)
      if (network === undefined || network.members > 0) return
      networks.delete(networkId)
      // Its end in the hub would disappear some time after the namespace, and block the next network of this number.
      await runScript(
        `ip -netns ${hubName} link delete ${INSIDE}${network.index} 2> /dev/null || true\nip netns delete ${nameOf(network.index)}`,
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
        if (program === undefined) await start()
        else await applyRules()
        const network = networks.get(networkId) ?? (await createNetwork(networkId))
        clearTimeout(network.timer)
        network.members += 1
        let isMember = true
        return {
          path: join(FOLDER, nameOf(network.index)),
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
