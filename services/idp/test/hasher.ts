import { execFileSync } from 'node:child_process'

/** The processes of hashes that a process has started. */
export const childrenOf = (pid: number): number[] =>
  execFileSync('ps', ['-e', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes('hash-process.ts'))
    .map((line) => line.trim().split(/ +/).map(Number))
    .flatMap(([child = 0, parent]) => (parent === pid ? [child] : []))

/** The one process that hashes for a process. */
export function hasherOf(service: number | undefined): number {
  const [pid, ...others] = childrenOf(service ?? 0)
  if (pid === undefined) throw new Error('Nothing hashes')
  if (others.length > 0) throw new Error('More than one process hashes')
  return pid
}
