import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { join } from 'node:path'
import { createBubblewrapSandbox } from './bubblewrap-sandbox.ts'
import { claim, claimUsers, isHeldByAnother, openJournal, type UserBlock } from './claim.ts'
import { type ControlGroups, openControlGroups, removeControlGroups } from './control-groups.ts'
import type { CpuTuning } from './cpu-priority.ts'
import { parseEgressAllowance } from './egress-rules.ts'
import { findNetworkObstacle, findObstacle, type Obstacle } from './find-obstacles.ts'
import type { NetworkKind } from './network-carrier.ts'
import { openNetworkHub, removeNetworks } from './network-hub.ts'
import { createPastaCarrier } from './pasta-carrier.ts'
import { createPlainSandbox } from './plain-sandbox.ts'
import { endProcesses } from './process-tree.ts'
import type { Egress, Sandbox, SandboxCapabilities } from './sandbox.ts'
import { createVethCarrier } from './veth-carrier.ts'

/** `auto`: bubblewrap if it works, else plain processes. `required`: bubblewrap or an error. `none`: plain processes. */
export type SandboxMode = 'auto' | 'required' | 'none'

export interface SandboxOptions {
  /** Absolute, used only by this sandbox; created. What it leaves there lets the next one clean up. */
  folder: string
  /** What the sandbox runs, for messages to the operator, and how to continue without walls. Default: Functions. */
  use?: SandboxUse
  mode: SandboxMode
  /** Default: public. Plain processes always use the machine's own network. */
  egress?: Egress
  /** Entries of FUNCTION_EGRESS_ALLOW; see parseEgressAllowance. */
  egressAllow?: readonly string[]
  /** What carries a public network. Default: pasta. */
  network?: NetworkKind | undefined
  /** Addresses of this machine that this process does not find on its own interfaces, closed like those. IPv6 is closed anyway. */
  machineAddresses?: readonly string[] | undefined
  /** Default: true, if they are writable. */
  hasControlGroups?: boolean
  /** Which commands stay behind all others since they use much CPU, and for how long. */
  cpu?: CpuTuning
  /** How long a network outlives its last command, in milliseconds. */
  networkIdleMs?: number
  /** Receives problems that were recovered from. */
  onWarning?: (message: string) => void
}

/** How messages name what a sandbox runs. */
interface SandboxUse {
  /** In the plural, at the start of a sentence. */
  name: string
  /** The operator's alternative to installing bubblewrap. */
  withoutWalls: string
  /** The operator's alternative to closing private addresses. */
  withoutNetwork: string
}

const FUNCTIONS: SandboxUse = {
  name: 'Functions',
  withoutWalls: 'set FUNCTION_SANDBOX=none to run them without walls',
  withoutNetwork:
    'set FUNCTION_EGRESS=none to let them reach nothing, or FUNCTION_EGRESS=host to let them reach everything that this machine can reach',
}
const WALLS_ADVICE = 'Install the package bubblewrap (apt install bubblewrap)'
/** What a public network of each kind needs. */
const ADVICE: Record<NetworkKind, string> = {
  pasta: 'Install the packages passt, nftables and iproute2 and run as root',
  veth: 'FUNCTION_NETWORK=veth needs the packages nftables and iproute2, root, a network namespace of its own, and in /etc/resolv.conf a name server at another IPv4 address: give it these, leave it out',
}
const NETWORK_IDLE_MS = 60_000
const isRoot = process.getuid?.() === 0
const NO_ROOT: Obstacle = { reason: 'the platform does not run as root' }

const OWNER_FILE = 'owner.json'

/** Whether the sandbox of a folder is another running process's. */
export const isSandboxOfAnother = (folder: string): boolean => isHeldByAnother(join(folder, OWNER_FILE))

/** A short id of a sandbox by its folder, for machine-wide names: namespaces and control groups. */
export const idOf = (folder: string): string =>
  createHash('sha256').update(realpathSync(folder)).digest('hex').slice(0, 8)

/**
 * Opens the sandbox of a folder, and removes what an earlier process left of it: processes, control groups, networks.
 *
 * Throws an Error for the operator if bubblewrap or something that egress needs is missing and the mode requires it, or if
 * another process holds the folder. Throws RangeError for an invalid entry of egressAllow.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { folder, mode, egress = 'public', network = 'pasta', use = FUNCTIONS, onWarning = () => undefined } = options
  const allowances = (options.egressAllow ?? []).map(parseEgressAllowance)
  mkdirSync(folder, { recursive: true })
  claim(join(folder, OWNER_FILE))
  const id = idOf(folder)
  const journal = openJournal(join(folder, 'commands'))
  const groupsFile = join(folder, 'groups.json')
  await endProcesses(() => journal.listProcesses())
  journal.clear()
  await removeControlGroups(readGroupPrefixes(groupsFile))
  if (isRoot) await removeNetworks(id)

  const wantsWalls = mode !== 'none'
  const [userObstacle, networkObstacle] = await Promise.all([
    wantsWalls && isRoot ? findObstacle(true) : NO_ROOT,
    wantsWalls && egress === 'public' ? findNetworkObstacle(network, id) : undefined,
  ])
  const ownObstacle = wantsWalls && userObstacle !== undefined ? await findObstacle(false) : undefined
  // As root bubblewrap may stop at something else, before it comes to what is known to be missing.
  const obstacle = ownObstacle && (userObstacle?.advice === undefined ? ownObstacle : userObstacle)
  if (mode === 'required' && obstacle !== undefined)
    throw new Error(
      `${use.name} need bubblewrap, and it does not work here: ${obstacle.reason}. ${obstacle.advice ?? `${WALLS_ADVICE} and allow user namespaces`}, or ${use.withoutWalls}`,
    )

  const isIsolated = wantsWalls && obstacle === undefined
  if (mode === 'auto' && !isIsolated && egress !== 'host')
    throw new Error(
      `The network of Functions cannot be closed without bubblewrap, which does not work here: ${obstacle?.reason}. ${obstacle?.advice ?? WALLS_ADVICE}, or set FUNCTION_EGRESS=host to let them reach everything that this machine can reach`,
    )
  if (isIsolated && networkObstacle !== undefined)
    throw new Error(
      `${use.name} cannot be kept from private addresses: ${networkObstacle.reason}. ${networkObstacle.advice ?? ADVICE[network]}, or ${use.withoutNetwork}`,
    )

  const groups = options.hasControlGroups === false ? undefined : await openControlGroups(`sandbox-${id}`, options.cpu)
  writeFileSync(groupsFile, JSON.stringify(groups?.prefixes ?? []))
  const users = isIsolated && userObstacle === undefined ? tryUsers() : undefined
  const capabilities: SandboxCapabilities = {
    isIsolated,
    isNetworkClosed: isIsolated && egress !== 'host',
    cgroups: groups?.version,
    hasOwnUsers: users !== undefined,
    missing: describeMissing({ isIsolated, mode, obstacle, userObstacle, egress, groups, users }),
  }
  if (!isIsolated) return createPlainSandbox({ capabilities, groups, journal, onWarning })
  const idleMs = options.networkIdleMs ?? NETWORK_IDLE_MS
  const carrier = network === 'veth' ? createVethCarrier(id) : createPastaCarrier(folder)
  const machineAddresses = (options.machineAddresses ?? []).filter(isIPv4)
  return createBubblewrapSandbox({
    folder,
    capabilities,
    egress,
    hub:
      egress === 'public'
        ? openNetworkHub({ id, carrier, allowances, machineAddresses, idleMs, onWarning })
        : undefined,
    groups,
    users,
    journal,
    onWarning,
  })
}

function readGroupPrefixes(file: string): string[] {
  try {
    const prefixes: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return Array.isArray(prefixes) ? prefixes.filter((each) => typeof each === 'string') : []
  } catch {
    // The first sandbox of this folder.
    return []
  }
}

function tryUsers(): UserBlock | undefined {
  try {
    return claimUsers()
  } catch {
    // Reported as a missing wall.
    return undefined
  }
}

interface Found {
  isIsolated: boolean
  mode: SandboxMode
  obstacle: Obstacle | undefined
  /** Of running commands as users of their own. */
  userObstacle: Obstacle | undefined
  egress: Egress
  groups: ControlGroups | undefined
  users: UserBlock | undefined
}

function describeMissing({ isIsolated, mode, obstacle, userObstacle, egress, groups, users }: Found): string[] {
  const missing: string[] = []
  if (!isIsolated)
    missing.push(
      mode === 'none'
        ? 'Functions run as plain processes that can read this machine and reach its network: set FUNCTION_SANDBOX=required for walls.'
        : `Functions run as plain processes that can read this machine and reach its network, because bubblewrap does not work: ${obstacle?.reason}.`,
    )
  else if (egress === 'host')
    missing.push(
      'Functions reach everything that this machine can reach: install passt and nftables, and set FUNCTION_EGRESS=public.',
    )
  if (isIsolated && users === undefined)
    missing.push(
      isRoot
        ? userObstacle?.advice === undefined
          ? 'Functions run as root without rights, because other users may not create user namespaces here: allow them (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns).'
          : `Functions run as root without rights, because ${userObstacle.reason}. ${userObstacle.advice}.`
        : 'Functions run as the user of the platform: run it as root for users of their own, which limit processes.',
    )
  if (groups === undefined)
    missing.push(
      'No control group can be written: memory is summed up once a second, processes that share it out can take a quarter more meanwhile, and CPU is not shared out. Start the platform as a service with Delegate=yes, or as root with cgroups writable.',
    )
  return missing
}
