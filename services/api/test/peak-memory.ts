import { readFileSync } from 'node:fs'

/**
 * The most that a process has held in memory, without what the kernel maps of Node's own file: 58 MB or 84, as that lies in its
 * cache, shared by all processes and given back when it is wanted.
 */
export function peakOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const told = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? Number.NaN) * 1_024
  return told('VmHWM') - told('RssFile')
}
