import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

const pin = 'taskset'
const canPin = availableParallelism() > 1 && spawnSync(pin, ['-c', '0', 'true']).status === 0

/** How the cores are shared, for the report. */
export const pinning = canPin
  ? 'server on core 0, load on core 1'
  : 'nothing is pinned: taskset or a second core is missing'

/** That of the measured server, that of everything else, or whichever the system gives. */
export type Core = 'server' | 'load' | 'any'

/** The command that runs Node on a core. */
export function onCore(core: Core, nodeArguments: readonly string[]): [string, string[]] {
  if (!canPin || core === 'any') return [process.execPath, [...nodeArguments]]
  return [pin, ['-c', core === 'server' ? '0' : '1', process.execPath, ...nodeArguments]]
}

/** The command that runs a program that is not ours on a core. */
export const programOn = (core: 'server' | 'load', program: string, args: readonly string[]): [string, string[]] =>
  canPin ? [pin, ['-c', core === 'server' ? '0' : '1', program, ...args]] : [program, [...args]]

/** Moves running processes, with all their threads. What they start from then on follows. Those that have ended are passed over. */
export function moveTo(core: Core, pids: readonly number[]): void {
  if (!canPin) return
  const list = core === 'any' ? `0-${availableParallelism() - 1}` : core === 'server' ? '0' : '1'
  for (const pid of pids) spawnSync(pin, ['-a', '-p', '-c', list, String(pid)])
}
