import { readdirSync, readFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'

function ticksPerSecond(): number {
  try {
    return Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' })) || 100
  } catch {
    return 100
  }
}
const MICROSECONDS_PER_TICK = 1_000_000 / ticksPerSecond()

interface Stat {
  name: string
  parent: number
  /** User and system time, of itself and of the children that have ended. */
  cpuMicroseconds: number
  /** Of itself alone. */
  ownMicroseconds: number
}

function readStat(pid: number): Stat | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined // it has ended, or this is not Linux
  }
  // The name stands in parentheses and may hold anything; what follows the last one is numbers.
  const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'))
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const time = (from: number, to: number) =>
    fields.slice(from, to).reduce((sum, field) => sum + Number(field), 0) * MICROSECONDS_PER_TICK
  return { name, parent: Number(fields[1]), cpuMicroseconds: time(11, 15), ownMicroseconds: time(11, 13) }
}

/** A process and everything it started that still runs. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry)
    const stat = Number.isInteger(pid) ? readStat(pid) : undefined
    if (stat) children.set(stat.parent, [...(children.get(stat.parent) ?? []), pid])
  }
  const pids = [root]
  for (const pid of pids) pids.push(...(children.get(pid) ?? []))
  return pids
}

/** CPU time that a process, and with its children unless it counts alone, has used so far; undefined where /proc does not tell. */
export function cpuOfServer(pid: number, isAlone: boolean): number | undefined {
  const stat = readStat(pid)
  if (!stat || isAlone) return stat?.ownMicroseconds
  return processTree(pid).reduce((sum, each) => sum + (readStat(each)?.cpuMicroseconds ?? 0), 0)
}

/** Resident memory of a process, and of its children unless it counts alone, in MB. */
export function memoryOfServer(pid: number, isAlone: boolean): number | undefined {
  if (!readStat(pid)) return undefined
  const kilobytes = (isAlone ? [pid] : processTree(pid)).map((each) => {
    try {
      return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'))?.[1] ?? 0)
    } catch {
      return 0 // ended meanwhile
    }
  })
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1_024
}

/** CPU time of Postgres backends by their numbers; undefined unless they are processes of this machine. */
export function cpuOfBackends(pids: readonly number[]): number | undefined {
  const stats = pids.map(readStat)
  if (stats.length === 0 || stats.some((stat) => stat?.name !== 'postgres')) return undefined
  return stats.reduce((sum, stat) => sum + (stat?.cpuMicroseconds ?? 0), 0)
}

/** Memory of processes in MB, in which what several share is parted among them (PSS); 0 for what has ended. */
export function proportionalMemoryOf(pids: readonly number[]): number {
  const kilobytes = pids.map((pid) => {
    try {
      return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)
    } catch {
      return 0 // ended meanwhile
    }
  })
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1_024
}
