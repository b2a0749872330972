import { existsSync, readFileSync } from 'node:fs'

/** Whether this process's network namespace is the machine's own: a few settings of the kernel exist there alone. */
export const isInMachineNetwork = (): boolean => existsSync('/proc/sys/net/core/netdev_budget')

/** Whether root of this process is root of the machine, or of a namespace around its own: nothing maps it to another user. */
export function hasMachineUsers(): boolean {
  try {
    return /^\s*0\s+0\s/m.test(readFileSync('/proc/self/uid_map', 'latin1'))
  } catch {
    return true
  }
}
