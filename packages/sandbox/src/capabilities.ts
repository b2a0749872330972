import { readFileSync } from 'node:fs'

/** Numbers of the kernel's capabilities (linux/capability.h). */
const NUMBERS = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_ADMIN: 12,
  SYS_ADMIN: 21,
} as const
export type Capability = keyof typeof NUMBERS

/** Those of the capabilities that this process does not have; none where the system is not Linux. */
export function listMissingCapabilities(wanted: readonly Capability[]): Capability[] {
  if (process.platform !== 'linux') return []
  const [, effective = '0'] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? []
  const held = BigInt(`0x${effective}`)
  return wanted.filter((name) => ((held >> BigInt(NUMBERS[name])) & 1n) === 0n)
}
