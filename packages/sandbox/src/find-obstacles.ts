import { closeSync, constants, openSync } from 'node:fs'
import { createBaseArguments } from './bubblewrap-arguments.ts'
import { type Capability, listMissingCapabilities } from './capabilities.ts'
import { createEgressRules } from './egress-rules.ts'
import type { NetworkKind } from './network-carrier.ts'
import { hasProgram, quote, runScript } from './run-program.ts'
import { findVethObstacle } from './veth-carrier.ts'

export interface Obstacle {
  /** Continues a sentence. */
  reason: string
  /** What the operator does about it, as a sentence without its end. Undefined: whatever is generally needed may be missing. */
  advice?: string
}

const TUN = '/dev/net/tun'

/** What containers refuse bubblewrap by default, each with its own setting. */
const REFUSALS: { said: RegExp; reason: string; advice: string }[] = [
  {
    said: /mount proc/,
    reason: 'some of /proc is hidden from this process, and then the kernel refuses a command a /proc of its own',
    advice:
      'Set procMount: Unmasked, with hostUsers: false, in a pod, or security_opt: systempaths=unconfined in Docker',
  },
  {
    said: /pivot_root/,
    reason: 'a filter of system calls refuses pivot_root',
    advice: 'Set seccompProfile: { type: Unconfined } in a pod, or security_opt: seccomp=unconfined in Docker',
  },
  {
    said: /make \/ slave: Permission denied/,
    reason: 'a profile of AppArmor refuses mounts',
    advice: 'Set appArmorProfile: { type: Unconfined } in a pod, or security_opt: apparmor=unconfined in Docker',
  },
]

/** Starting commands as users of their own, giving them files, reading and removing what they wrote, and ending them. */
const OF_OTHER_USERS: Capability[] = ['SETUID', 'SETGID', 'CHOWN', 'FOWNER', 'DAC_OVERRIDE', 'KILL']

function findCapabilityObstacle(wanted: readonly Capability[]): Obstacle | undefined {
  const missing = listMissingCapabilities(wanted)
  if (missing.length === 0) return undefined
  const names = missing.join(', ')
  return {
    reason: `this process does not have the ${missing.length === 1 ? 'capability' : 'capabilities'} ${names}`,
    advice: `Add ${names} to securityContext.capabilities.add of its container in a pod, or to cap_add in Docker`,
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown')

/** Why bubblewrap does not work here; undefined if it does. asUser: test as an unprivileged user, as commands run. */
export async function findObstacle(asUser: boolean): Promise<Obstacle | undefined> {
  if (process.platform !== 'linux') return { reason: 'it is a program of Linux' }
  if (!hasProgram('bwrap')) return { reason: 'the program bwrap is not installed' }
  const user = ['setpriv', '--reuid', '61000', '--regid', '61000', '--clear-groups', '--no-new-privs']
  if (asUser && !['setpriv', 'prlimit', 'unshare'].every(hasProgram))
    return { reason: 'setpriv, prlimit or unshare is not installed' }
  const missing = asUser ? findCapabilityObstacle(OF_OTHER_USERS) : undefined
  if (missing !== undefined) return missing
  const command = [...(asUser ? user : []), 'bwrap', ...createBaseArguments(), '--', '/bin/true']
  try {
    await runScript(`exec ${command.map(quote).join(' ')}`)
    return undefined
  } catch (error) {
    const message = messageOf(error)
    const refusal = REFUSALS.find(({ said }) => said.test(message))
    return refusal ? { reason: `${refusal.reason} (${message})`, advice: refusal.advice } : { reason: message }
  }
}

/** Why pasta gets no interface; undefined if it does. */
function findTunObstacle(): Obstacle | undefined {
  try {
    closeSync(openSync(TUN, constants.O_RDWR))
    return undefined
  } catch (error) {
    return {
      reason: `FUNCTION_NETWORK=pasta needs the device ${TUN}, which cannot be opened (${(error as NodeJS.ErrnoException).code})`,
      advice: `Give ${TUN} to this process (devices in Docker), or set FUNCTION_NETWORK=veth if it has a network namespace of its own, as in a pod`,
    }
  }
}

/** Why no network can be closed here; undefined if one can. id: of the sandbox, whose networks do not run, for veth. */
export async function findNetworkObstacle(kind: NetworkKind = 'pasta', id = ''): Promise<Obstacle | undefined> {
  if (process.getuid?.() !== 0) return { reason: 'the platform does not run as root' }
  const missing = ['pasta', 'nft', 'ip', 'nsenter', 'setpriv']
    .filter((program) => program !== 'pasta' || kind === 'pasta')
    .filter((program) => !hasProgram(program))
  if (missing.length > 0) return { reason: `not installed: ${missing.join(', ')}` }
  const obstacle =
    findCapabilityObstacle(['SYS_ADMIN', 'NET_ADMIN']) ?? (kind === 'pasta' ? findTunObstacle() : undefined)
  if (obstacle !== undefined) return obstacle
  try {
    // Tests the actual rules: the kernel may lack a module that they need.
    await runScript(`unshare --net sh -ec "ip link set lo up; nft -f -" <<'END'\n${createEgressRules([], [])}END`)
  } catch (error) {
    return { reason: messageOf(error) }
  }
  const reason = kind === 'veth' ? await findVethObstacle(id) : undefined
  return reason === undefined ? undefined : { reason }
}
