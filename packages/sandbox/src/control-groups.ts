import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { type CpuTuning, createCpuPriority } from './cpu-priority.ts'
import { killProcess, listDescendants } from './process-tree.ts'
import type { SandboxLimits } from './sandbox.ts'

/** Control groups of one command. */
export interface ControlGroup {
  /** Files to which a process writes its pid to join. */
  joinFiles: string[]
  /** How often the kernel killed a process because the memory limit was reached. */
  memoryKills(): Promise<number>
  /** How often a new process or thread was refused at the limit. */
  processRefusals(): Promise<number>
  /** Anonymous memory and in-memory files, in bytes. */
  memoryBytes(): Promise<number>
  /** See SandboxedProcess. */
  allowAnswer(): void
  kill(): void
  /** Kills remaining processes, waits until they are gone, and removes the groups. */
  remove(): Promise<void>
}

/** Control groups below this process's own: one per owner, each holding one per command of that owner. */
export interface ControlGroups {
  version: 'v1' | 'v2'
  /** Path prefixes of all groups, so that the next process can remove them after a kill. */
  prefixes: string[]
  /** name: unique among existing groups. owner: its commands together leave one core to others, if there are several. */
  create(name: string, limits: SandboxLimits, owner: string): Promise<ControlGroup>
  remove(): Promise<void>
}

/** TCP buffers of a command may hold 1/TCP_PART of its memory limit on top. */
const TCP_PART = 4
/** bubblewrap's own two processes. */
const OWN_PROCESSES = 2
const CONTROLLERS = ['memory', 'pids', 'cpu'] as const
type Controller = (typeof CONTROLLERS)[number]

/** Version 2: the group for this process and its relatives, beside the groups of commands. */
const OWN_TASKS = 'platform'
/** Short, since an owner may keep all cores busy until its quota is used up. */
const CPU_PERIOD_US = 10_000
/** CPU time that one owner may use in each period. */
const CPU_QUOTA_US = Math.max(1, availableParallelism() - 1) * CPU_PERIOD_US
const tryWrite = async (file: string, value: number): Promise<void> => {
  try {
    await writeFile(file, String(value))
  } catch {
    // The file is missing in kernels without swap accounting.
  }
}

const isWritable = (path: string): boolean => {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

export interface GroupPaths {
  /** Contents of /proc/self/cgroup and /proc/self/mounts. */
  membership: string
  mounts: string
}

export const readGroupPaths = (): GroupPaths => ({
  membership: readFileSync('/proc/self/cgroup', 'utf8'),
  mounts: readFileSync('/proc/self/mounts', 'utf8'),
})

/** The path of this process's own group, for one controller (v1) or for all (v2: undefined). */
export function findOwnGroup(
  { membership, mounts }: GroupPaths,
  controller: Controller | 'cpuacct' | undefined,
): string | undefined {
  for (const line of mounts.split('\n')) {
    const [, mount = '', type, options = ''] = line.split(' ')
    const isIt =
      controller === undefined ? type === 'cgroup2' : type === 'cgroup' && options.split(',').includes(controller)
    if (!isIt) continue
    for (const entry of membership.split('\n')) {
      const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(entry) ?? []
      const isOwn = controller === undefined ? controllers === '' : controllers.split(',').includes(controller)
      if (!isOwn) continue
      const own = join(mount, path)
      // In a container the path may be the host's, while the mount shows the container's own group.
      return existsSync(own) ? own : mount
    }
  }
  return undefined
}

/**
 * Opens control groups that this process may subdivide; undefined if there are none.
 *
 * name: prefix of the groups it creates. cpu: see CpuTuning. In version 2 a group that holds processes cannot be
 * divided: this process and its relatives move into a group of their own, unless unrelated processes are in the group too.
 */
export async function openControlGroups(name: string, cpu: CpuTuning = {}): Promise<ControlGroups | undefined> {
  if (process.platform !== 'linux') return undefined
  try {
    const paths = readGroupPaths()
    const groups = (await openUnified(paths, name, cpu)) ?? openLegacy(paths, name, cpu)
    for (const prefix of groups?.prefixes ?? []) {
      mkdirSync(`${prefix}-trial`, { recursive: true })
      rmdirSync(`${prefix}-trial`)
    }
    return groups
  } catch {
    // Read-only groups, or groups that another process is dividing right now: treated as missing.
    return undefined
  }
}

function openLegacy(paths: GroupPaths, name: string, cpu: CpuTuning): ControlGroups | undefined {
  const prefixes = {} as Record<Controller, string>
  for (const controller of CONTROLLERS) {
    const own = findOwnGroup(paths, controller)
    if (own === undefined || !isWritable(own)) return undefined
    prefixes[controller] = join(own, name)
  }
  // Counts CPU time; if another process holds this controller, no owner is deprioritised.
  const accounts = findOwnGroup(paths, 'cpuacct')
  const counted = accounts !== undefined && isWritable(accounts) ? join(accounts, name) : undefined
  const all = [...new Set([...Object.values(prefixes), ...(counted === undefined ? [] : [counted])])]
  return createGroups({
    cpu,
    version: 'v1',
    prefixes: all,
    usageFile: (owner) => (counted === undefined ? undefined : join(`${counted}-${owner}`, 'cpuacct.usage')),
    processesFile: (owner) => join(`${prefixes.pids}-${owner}`, 'pids.current'),
    usagePerMicrosecond: 1_000,
    idleFile: (owner) => join(`${prefixes.cpu}-${owner}`, 'cpu.idle'),
    divide: async (owner) => {
      // Older kernels add children to their parent's count only if told to.
      await tryWrite(join(`${prefixes.memory}-${owner}`, 'memory.use_hierarchy'), 1)
      await writeFile(join(`${prefixes.cpu}-${owner}`, 'cpu.cfs_period_us'), String(CPU_PERIOD_US))
      await writeFile(join(`${prefixes.cpu}-${owner}`, 'cpu.cfs_quota_us'), String(CPU_QUOTA_US))
    },
    limit: async (owner, command, limits) => {
      const folder = (controller: Controller): string => join(`${prefixes[controller]}-${owner}`, command)
      await Promise.all([
        writeFile(join(folder('memory'), 'memory.limit_in_bytes'), String(limits.memoryBytes)).then(() =>
          tryWrite(join(folder('memory'), 'memory.memsw.limit_in_bytes'), limits.memoryBytes),
        ),
        // In version 1 no other limit covers TCP buffers, and they share a machine-wide limit.
        tryWrite(join(folder('memory'), 'memory.kmem.tcp.limit_in_bytes'), Math.floor(limits.memoryBytes / TCP_PART)),
        writeFile(join(folder('pids'), 'pids.max'), String(limits.processes + OWN_PROCESSES)),
        writeFile(join(folder('cpu'), 'cpu.shares'), String(Math.max(2, Math.round((1024 * limits.cpuShare) / 100)))),
      ])
      return {
        killsFile: join(folder('memory'), 'memory.oom_control'),
        refusalsFile: join(folder('pids'), 'pids.events'),
        statistics: join(folder('memory'), 'memory.stat'),
        counted: ['total_rss', 'total_shmem'],
      }
    },
  })
}

async function openUnified(paths: GroupPaths, name: string, cpu: CpuTuning): Promise<ControlGroups | undefined> {
  let own = findOwnGroup(paths, undefined)
  // An earlier sandbox of this process, or of a process that started it, has already divided the group.
  if (own !== undefined && basename(own) === OWN_TASKS) own = dirname(own)
  if (own === undefined || !isWritable(join(own, 'cgroup.procs'))) return undefined
  const offered = (await readFile(join(own, 'cgroup.controllers'), 'utf8')).trim().split(' ')
  if (!CONTROLLERS.every((controller) => offered.includes(controller))) return undefined
  const enabled = (await readFile(join(own, 'cgroup.subtree_control'), 'utf8')).trim().split(' ')
  const wanted = CONTROLLERS.map((controller) => `+${controller}`).join(' ')
  if (!CONTROLLERS.every((controller) => enabled.includes(controller))) {
    const members = (await readFile(join(own, 'cgroup.procs'), 'utf8')).trim().split('\n').map(Number)
    if (!members.every(isRelative)) return undefined
    const platform = join(own, OWN_TASKS)
    await mkdir(platform, { recursive: true })
    for (const pid of members) await writeFile(join(platform, 'cgroup.procs'), String(pid))
    await writeFile(join(own, 'cgroup.subtree_control'), wanted)
  }
  const prefix = join(own, name)
  return createGroups({
    cpu,
    version: 'v2',
    prefixes: [prefix],
    usageFile: (owner) => join(`${prefix}-${owner}`, 'cpu.stat'),
    processesFile: (owner) => join(`${prefix}-${owner}`, 'pids.current'),
    usagePerMicrosecond: 1,
    idleFile: (owner) => join(`${prefix}-${owner}`, 'cpu.idle'),
    divide: async (owner) => {
      await writeFile(join(`${prefix}-${owner}`, 'cgroup.subtree_control'), wanted)
      await writeFile(join(`${prefix}-${owner}`, 'cpu.max'), `${CPU_QUOTA_US} ${CPU_PERIOD_US}`)
    },
    limit: async (owner, command, limits) => {
      const folder = join(`${prefix}-${owner}`, command)
      await Promise.all([
        writeFile(join(folder, 'memory.max'), String(limits.memoryBytes)),
        tryWrite(join(folder, 'memory.swap.max'), 0),
        tryWrite(join(folder, 'memory.oom.group'), 1),
        writeFile(join(folder, 'pids.max'), String(limits.processes + OWN_PROCESSES)),
        writeFile(join(folder, 'cpu.weight'), String(Math.min(10_000, Math.max(1, Math.round(limits.cpuShare))))),
      ])
      return {
        killsFile: join(folder, 'memory.events'),
        refusalsFile: join(folder, 'pids.events'),
        statistics: join(folder, 'memory.stat'),
        counted: ['anon', 'shmem'],
      }
    },
  })
}

/** True if a process is this one, an ancestor or a descendant. */
function isRelative(pid: number): boolean {
  return pid === process.pid || listDescendants(process.pid).includes(pid) || listDescendants(pid).includes(process.pid)
}

interface GroupFiles {
  /** Holds a line `oom_kill N`. */
  killsFile: string
  /** Holds a line `max N`. */
  refusalsFile: string
  /** Holds lines of name and bytes. */
  statistics: string
  counted: string[]
}

/** The differences between the two versions. Files of an owner are those of its own group. */
interface Version extends Pick<ControlGroups, 'version' | 'prefixes'> {
  /** See CpuPriorityParts. */
  cpu: CpuTuning
  /** A file that begins with the CPU time used; undefined if unavailable. */
  usageFile(owner: string): string | undefined
  usagePerMicrosecond: number
  /** A file that holds the number of an owner's processes and threads. */
  processesFile(owner: string): string
  idleFile(owner: string): string
  /** Prepares an owner's new group. */
  divide(owner: string): Promise<void>
  /** Limits a command's new group. */
  limit(owner: string, command: string, limits: SandboxLimits): Promise<GroupFiles>
}

function createGroups({ version, prefixes, cpu, ...files }: Version): ControlGroups {
  const owners = new Map<string, { commands: number; made: Promise<void> }>()
  const foldersOf = (owner: string): string[] => prefixes.map((prefix) => `${prefix}-${owner}`)
  const cpuPriority = createCpuPriority({
    ...cpu,
    openUsage: (owner) => {
      const file = files.usageFile(owner)
      if (file === undefined) return undefined
      const usage = openNumber(file)
      const processes = openNumber(files.processesFile(owner))
      return {
        microseconds: () => usage.read() / files.usagePerMicrosecond,
        processes: () => processes.read(),
        close: () => {
          usage.close()
          processes.close()
        },
      }
    },
    setIdle: (owner, isIdle) => tryWriteSync(files.idleFile(owner), isIdle ? 1 : 0),
  })

  const make = async (owner: string): Promise<void> => {
    await Promise.all(foldersOf(owner).map((folder) => mkdir(folder, { recursive: true })))
    await files.divide(owner)
    cpuPriority.add(owner)
  }
  /**
   * Synchronous between the last command's end and the removal, so that the next command finds the group either complete or
   * gone.
   */
  const leave = (owner: string): void => {
    const entry = owners.get(owner)
    if (entry === undefined || --entry.commands > 0) return
    owners.delete(owner)
    cpuPriority.remove(owner)
    for (const folder of foldersOf(owner)) tryRemove(folder)
  }

  return {
    version,
    prefixes,
    create: async (command, limits, owner) => {
      const entry = owners.get(owner) ?? { commands: 0, made: make(owner) }
      owners.set(owner, entry)
      entry.commands++
      const folders = foldersOf(owner).map((folder) => join(folder, command))
      try {
        await entry.made
        cpuPriority.allowStart(owner)
        await Promise.all(folders.map((folder) => mkdir(folder)))
        const group = createGroup(folders, await files.limit(owner, command, limits))
        return {
          ...group,
          allowAnswer: () => cpuPriority.allowAnswer(owner),
          kill: () => {
            cpuPriority.allowEnd(owner)
            killGroups(folders)
          },
          remove: async () => {
            // What the first process has left behind is killed only now.
            if (listMembers(folders).size > 0) cpuPriority.allowEnd(owner)
            await removeGroups(folders)
            leave(owner)
          },
        }
      } catch (error) {
        for (const folder of folders) tryRemove(folder)
        leave(owner)
        throw error
      }
    },
    remove: async () => {
      cpuPriority.close()
      await removeControlGroups(prefixes)
    },
  }
}

function tryWriteSync(file: string, value: number): void {
  try {
    writeFileSync(file, String(value))
  } catch {
    // The file is missing in kernels before 5.15.
  }
}

/** Opens a kernel file for repeated reads of the number at its start. */
function openNumber(file: string): { read(): number; close(): void } {
  const descriptor = openSync(file, 'r')
  const buffer = Buffer.alloc(64)
  let last = 0
  return {
    read: () => {
      try {
        const text = buffer.toString('latin1', 0, readSync(descriptor, buffer, 0, buffer.length, 0))
        last = Number(/\d+/.exec(text)?.[0] ?? 0)
      } catch {
        // The group has been removed by someone else: nothing changes any more.
      }
      return last
    },
    close: () => closeSync(descriptor),
  }
}

function createGroup(
  folders: string[],
  { killsFile, refusalsFile, statistics, counted }: GroupFiles,
): Omit<ControlGroup, 'allowAnswer' | 'kill' | 'remove'> {
  const readNumbers = async (file: string): Promise<Map<string, number>> => {
    try {
      const lines = (await readFile(file, 'utf8')).trim().split('\n')
      return new Map(lines.map((line) => line.split(' ')).map(([name = '', value]) => [name, Number(value)]))
    } catch {
      // The group has been removed.
      return new Map()
    }
  }
  return {
    joinFiles: folders.map((folder) => join(folder, 'cgroup.procs')),
    memoryKills: async () => (await readNumbers(killsFile)).get('oom_kill') ?? 0,
    processRefusals: async () => (await readNumbers(refusalsFile)).get('max') ?? 0,
    memoryBytes: async () => {
      const numbers = await readNumbers(statistics)
      return counted.reduce((sum, name) => sum + (numbers.get(name) ?? 0), 0)
    },
  }
}

function listMembers(folders: string[]): Set<number> {
  const members = new Set<number>()
  for (const folder of folders)
    try {
      for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n'))
        if (pid !== '') members.add(Number(pid))
    } catch {
      // Already removed.
    }
  return members
}

function killGroups(folders: string[]): void {
  for (const folder of folders)
    try {
      writeFileSync(join(folder, 'cgroup.kill'), '1')
    } catch {
      // Version 1, or a kernel before 5.14.
    }
  for (const pid of listMembers(folders)) killProcess(pid)
}

/** Gives up after 10 s: processes that hang in the kernel that long cannot be killed, and the next start removes the group. */
async function removeGroups(folders: string[]): Promise<void> {
  const until = Date.now() + 10_000
  for (let delayMs = 1; ; delayMs = Math.min(50, delayMs * 2)) {
    killGroups(folders)
    if (folders.every(tryRemove) || Date.now() > until) return
    await new Promise((resolve) => setTimeout(resolve, delayMs))
  }
}

function tryRemove(folder: string): boolean {
  try {
    rmdirSync(folder)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

/** Removes the groups of a sandbox, their subgroups and all their processes. prefixes: from `ControlGroups`. Safe to repeat. */
export async function removeControlGroups(prefixes: string[]): Promise<void> {
  for (const prefix of prefixes) {
    const name = basename(prefix)
    if (!name.startsWith('sandbox-')) throw new Error(`${prefix} is no control group of a sandbox`)
    const owners = await listGroups(dirname(prefix))
    await Promise.all(
      owners
        .filter((owner) => basename(owner).startsWith(`${name}-`))
        .map(async (owner) => {
          for (const command of await listGroups(owner)) await removeGroups([command])
          await removeGroups([owner])
        }),
    )
  }
}

/** Subgroups of a group; none if it has been removed. */
async function listGroups(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    return entries.filter((each) => each.isDirectory()).map(({ name }) => join(folder, name))
  } catch {
    // Already removed.
    return []
  }
}
