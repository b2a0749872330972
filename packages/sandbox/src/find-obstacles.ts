import { createBaseArguments } from './bubblewrap-arguments.ts'
import { createEgressRules } from './egress-rules.ts'
import { hasProgram, quote, runScript } from './run-program.ts'

/** Why bubblewrap does not work here; undefined if it does. asUser: test as an unprivileged user, as commands run. */
export async function findObstacle(asUser: boolean): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'it is a program of Linux'
  if (!hasProgram('bwrap')) return 'the program bwrap is not installed'
  const user = ['setpriv', '--reuid', '61000', '--regid', '61000', '--clear-groups', '--no-new-privs']
  if (asUser && !['setpriv', 'prlimit', 'unshare'].every(hasProgram))
    return 'setpriv, prlimit or unshare is not installed'
  const command = [...(asUser ? user : []), 'bwrap', ...createBaseArguments(), '--', '/bin/true']
  try {
    await runScript(`exec ${command.map(quote).join(' ')}`)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : 'unknown'
  }
}

/** Why no network can be closed here; undefined if one can. */
export async function findNetworkObstacle(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'the platform does not run as root'
  const missing = ['pasta', 'nft', 'ip', 'nsenter', 'setpriv'].filter((program) => !hasProgram(program))
  if (missing.length > 0) return `not installed: ${missing.join(', ')}`
  try {
    // Tests the actual rules: the kernel may lack a module that they need.
    await runScript(`unshare --net sh -ec "ip link set lo up; nft -f -" <<'END'\n${createEgressRules([], [])}END`)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : 'unknown'
  }
}
