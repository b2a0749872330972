import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

const isLinux = process.platform === 'linux'

/** Identifies a process, as opposed to a later one with the same pid. */
export interface ProcessIdentity {
  pid: number
  /** Its start time, in the system's format. */
  startedAt: string
}

/** Fields of /proc/PID/stat after the name, which may itself hold spaces and parentheses: state, parent, group, … */
function parseStat(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** The process with this pid, unless it has ended. A zombie counts as ended. */
export function findProcess(pid: number): ProcessIdentity | undefined {
  try {
    if (!isLinux) {
      const startedAt = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
      return startedAt === '' ? undefined : { pid, startedAt }
    }
    const fields = parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'))
    // The start time counts ticks since boot, so the boot id belongs to it.
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : { pid, startedAt: `${boot} ${fields[19]}` }
  } catch {
    // No such process.
    return undefined
  }
}

/** True if this very process still runs. */
export function isRunning(identity: ProcessIdentity): boolean {
  return findProcess(identity.pid)?.startedAt === identity.startedAt
}

/** Sends a signal; a process that has already ended is not an error. pid: negative for a process group. */
export function killProcess(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended.
  }
}

/** Children by parent, of every process of this machine. */
function listChildren(): Map<number, number[]> {
  const children = new Map<number, number[]>()
  const add = (parent: number, pid: number): void => {
    children.set(parent, [...(children.get(parent) ?? []), pid])
  }
  if (!isLinux) {
    for (const line of execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).split('\n')) {
      const [pid, parent] = line.trim().split(/\s+/).map(Number)
      if (pid !== undefined && parent !== undefined) add(parent, pid)
    }
    return children
  }
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    try {
      add(Number(parseStat(readFileSync(`/proc/${entry}/stat`, 'latin1'))[1]), Number(entry))
    } catch {
      // It has ended meanwhile.
    }
  }
  return children
}

/** Descendants of a process, children first. Orphans whose parents have ended are not found. */
export function listDescendants(pid: number): number[] {
  const children = listChildren()
  const pids: number[] = []
  let generation = children.get(pid) ?? []
  while (generation.length > 0) {
    pids.push(...generation)
    generation = generation.flatMap((each) => children.get(each) ?? [])
  }
  return pids
}

/** Threads of a process and its descendants; processes if /proc is missing. */
export function countThreads(pid: number): number {
  let threads = 0
  for (const each of [pid, ...listDescendants(pid)])
    try {
      threads += isLinux ? Number(parseStat(readFileSync(`/proc/${each}/stat`, 'latin1'))[17]) : 1
    } catch {
      // It has ended meanwhile.
    }
  return threads
}

/** Kills a process and its descendants. Stops it first, so that it cannot start others meanwhile. Returns them all. */
export function killTree(pid: number): number[] {
  killProcess(pid, 'SIGSTOP')
  const tree = [pid, ...listDescendants(pid)]
  for (const each of tree) killProcess(each)
  return tree
}

/** Live processes of a process group. */
export function listProcessGroup(group: number): number[] {
  if (!isLinux) {
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,pgid=,stat='], { encoding: 'utf8' }).split('\n')
    const rows = lines.map((line) => line.trim().split(/\s+/))
    return rows.flatMap(([pid, of, state = '']) =>
      Number(of) === group && !state.startsWith('Z') ? [Number(pid)] : [],
    )
  }
  return readdirSync('/proc').flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return []
    try {
      const [state = '', , of] = parseStat(readFileSync(`/proc/${entry}/stat`, 'latin1'))
      return Number(of) === group && !['Z', 'X'].includes(state) ? [Number(entry)] : []
    } catch {
      // It has ended meanwhile.
      return []
    }
  })
}

/**
 * Memory of a process and its descendants, in bytes: pages they wrote, and shared memory once per process that maps it.
 * Program text is not counted. 0 if they have ended.
 */
export async function treeMemoryBytes(pid: number): Promise<number> {
  if (!isLinux) {
    const wanted = new Set([pid, ...listDescendants(pid)])
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,rss='], { encoding: 'utf8' }).split('\n')
    const rows = lines.map((line) => line.trim().split(/\s+/).map(Number))
    return rows.reduce((sum, [each = 0, kib = 0]) => sum + (wanted.has(each) ? kib * 1024 : 0), 0)
  }
  let sum = 0
  for (const each of [pid, ...(await listDescendantsByTask(pid))]) {
    try {
      const status = await readFile(`/proc/${each}/status`, 'latin1')
      for (const [, kib] of status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+)/gm)) sum += Number(kib) * 1024
    } catch {
      // It has ended meanwhile.
    }
  }
  return sum
}

/** As listDescendants, for polling every second: only reads the processes of the tree. */
async function listDescendantsByTask(pid: number): Promise<number[]> {
  const pids: number[] = []
  const pending = [pid]
  for (let parent = pending.pop(); parent !== undefined; parent = pending.pop()) {
    try {
      for (const task of await readdir(`/proc/${parent}/task`)) {
        const text = await readFile(`/proc/${parent}/task/${task}/children`, 'latin1')
        const children = text.split(' ').filter((each) => each !== '')
        pids.push(...children.map(Number))
        pending.push(...children.map(Number))
      }
    } catch (error) {
      // Either the process has ended, or the kernel does not list children.
      if (parent === pid && findProcess(pid) !== undefined && (error as NodeJS.ErrnoException).code === 'ENOENT')
        return listDescendants(pid)
    }
  }
  return pids
}

/** Size of a process's data segments, in bytes, which RLIMIT_DATA limits. Linux only; 0 once it has ended. */
export function dataBytes(pid: number): number {
  try {
    return Number(/^VmData:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/** Kills processes until none is left. Gives up after 10 s on those that hang in the kernel. */
export async function endProcesses(listLeft: () => number[]): Promise<void> {
  const until = Date.now() + 10_000
  for (let delayMs = 1; Date.now() < until; delayMs = Math.min(50, delayMs * 2)) {
    const left = listLeft().filter((pid) => findProcess(pid) !== undefined)
    if (left.length === 0) return
    for (const pid of left) killProcess(pid)
    await new Promise((resolve) => setTimeout(resolve, delayMs))
  }
}
