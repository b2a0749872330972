import { accessSync, constants, existsSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { findProcess, killProcess, listDescendants } from './process-tree.ts'
import type { SandboxLimits } from './sandbox.ts'

/** Control groups of one command. */
export interface ControlGroup {
  /** Files to which a process writes its number to join. */
  joinFiles: string[]
  /** How often the kernel ended a process because the memory was used up. */
  memoryKills(): Promise<number>
  /** Anonymous memory and files in memory, in bytes. */
  memoryBytes(): Promise<number>
  kill(): void
  isEmpty(): boolean
  /** Kills what is left, waits until it has gone, and removes the groups. */
  remove(): Promise<void>
}

/** A folder of control groups below this process's own. */
export interface ControlGroups {
  version: 'v1' | 'v2'
  /** Folders made, for the next process to remove after a kill. */
  folders: string[]
  /** name: unique among those that exist. owner: its commands together leave a core to others, where there are several (in version 2 each command by itself does). */
  create(name: string, limits: SandboxLimits, owner: string): Promise<ControlGroup>
  remove(): Promise<void>
}

/** What bubblewrap itself needs: its two processes. */
const OWN_PROCESSES = 2
const CONTROLLERS = ['memory', 'pids', 'cpu'] as const
type Controller = (typeof CONTROLLERS)[number]

/** Short, since until the quota of one is used up all cores may be busy with it. */
const CPU_PERIOD_US = 10_000
/** What one owner may use in each period. */
const CPU_QUOTA_US = Math.max(1, availableParallelism() - 1) * CPU_PERIOD_US
/** A group of this name may be removed by the last of its commands while the next is made. */
const TRIES_MAX = 5

const tryWrite = async (file: string, value: number): Promise<void> => {
  try {
    await writeFile(file, String(value))
  } catch {
    // Kernels without swap accounting have no such file.
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

interface Paths {
  /** Contents of /proc/self/cgroup and /proc/self/mounts. */
  membership: string
  mounts: string
}

const readPaths = (): Paths => ({
  membership: readFileSync('/proc/self/cgroup', 'utf8'),
  mounts: readFileSync('/proc/self/mounts', 'utf8'),
})

/** Where this process's own group is, of one controller (v1) or of all (v2: undefined). */
function findOwnGroup({ membership, mounts }: Paths, controller: Controller | undefined): string | undefined {
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
      // In a container the path may be that of the host, while the mount shows the container's own group.
      return existsSync(own) ? own : mount
    }
  }
  return undefined
}

/**
 * Control groups that this process may divide further; undefined where there are none.
 *
 * name: of the folder made in each. In version 2 a group that holds processes cannot be divided: this process and its relatives move
 * into a group of their own, unless strangers are in the group too.
 */
export async function openControlGroups(name: string): Promise<ControlGroups | undefined> {
  if (process.platform !== 'linux') return undefined
  try {
    const paths = readPaths()
    return (await openUnified(paths, name)) ?? (await openLegacy(paths, name))
  } catch {
    // Groups that can only be read, or that another divides at this moment: as if there were none.
    return undefined
  }
}

async function openLegacy(paths: Paths, name: string): Promise<ControlGroups | undefined> {
  const folders = {} as Record<Controller, string>
  for (const controller of CONTROLLERS) {
    const own = findOwnGroup(paths, controller)
    if (own === undefined || !isWritable(own)) return undefined
    folders[controller] = join(own, name)
  }
  for (const folder of Object.values(folders)) await mkdir(folder, { recursive: true })
  // Older kernels count children with their parent only when told to.
  await tryWrite(join(folders.memory, 'memory.use_hierarchy'), 1)
  return {
    version: 'v1',
    folders: Object.values(folders),
    create: async (command, limits, owner) => {
      const [memory, pids] = [join(folders.memory, command), join(folders.pids, command)]
      const cpu = join(await createOwner(folders.cpu, owner, command), command)
      await Promise.all([memory, pids].map((folder) => mkdir(folder)))
      await Promise.all([
        writeFile(join(memory, 'memory.limit_in_bytes'), String(limits.memoryBytes)).then(() =>
          tryWrite(join(memory, 'memory.memsw.limit_in_bytes'), limits.memoryBytes),
        ),
        writeFile(join(pids, 'pids.max'), String(limits.processes + OWN_PROCESSES)),
        writeFile(join(cpu, 'cpu.shares'), String(Math.max(2, Math.round((1024 * limits.cpuShare) / 100)))),
      ])
      return createGroup({
        folders: [memory, pids, cpu],
        owner: join(folders.cpu, owner),
        killsFile: join(memory, 'memory.oom_control'),
        statistics: join(memory, 'memory.stat'),
        counted: ['total_rss', 'total_shmem'],
      })
    },
    remove: () => removeGroupFolders(Object.values(folders)),
  }
}

/** Makes the group of an owner's commands, and in it that of one command. Returns the owner's. */
async function createOwner(folder: string, owner: string, command: string): Promise<string> {
  const path = join(folder, owner)
  for (let tries = 1; ; tries++)
    try {
      await mkdir(path, { recursive: true })
      await writeFile(join(path, 'cpu.cfs_period_us'), String(CPU_PERIOD_US))
      await writeFile(join(path, 'cpu.cfs_quota_us'), String(CPU_QUOTA_US))
      await mkdir(join(path, command))
      return path
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || tries >= TRIES_MAX) throw error
    }
}

async function openUnified(paths: Paths, name: string): Promise<ControlGroups | undefined> {
  const own = findOwnGroup(paths, undefined)
  if (own === undefined || !isWritable(join(own, 'cgroup.procs'))) return undefined
  const offered = (await readFile(join(own, 'cgroup.controllers'), 'utf8')).trim().split(' ')
  if (!CONTROLLERS.every((controller) => offered.includes(controller))) return undefined
  const enabled = (await readFile(join(own, 'cgroup.subtree_control'), 'utf8')).trim().split(' ')
  const wanted = CONTROLLERS.map((controller) => `+${controller}`).join(' ')
  if (!CONTROLLERS.every((controller) => enabled.includes(controller))) {
    const members = (await readFile(join(own, 'cgroup.procs'), 'utf8')).trim().split('\n').map(Number)
    if (!members.every(isRelative)) return undefined
    const platform = join(own, 'platform')
    await mkdir(platform, { recursive: true })
    for (const pid of members) await writeFile(join(platform, 'cgroup.procs'), String(pid))
    await writeFile(join(own, 'cgroup.subtree_control'), wanted)
  }
  const folder = join(own, name)
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'cgroup.subtree_control'), wanted)
  return {
    version: 'v2',
    folders: [folder],
    create: async (command, limits) => {
      const group = join(folder, command)
      await mkdir(group)
      await Promise.all([
        writeFile(join(group, 'memory.max'), String(limits.memoryBytes)),
        tryWrite(join(group, 'memory.swap.max'), 0),
        tryWrite(join(group, 'memory.oom.group'), 1),
        writeFile(join(group, 'pids.max'), String(limits.processes + OWN_PROCESSES)),
        writeFile(join(group, 'cpu.max'), `${CPU_QUOTA_US} ${CPU_PERIOD_US}`),
        writeFile(join(group, 'cpu.weight'), String(Math.min(10_000, Math.max(1, Math.round(limits.cpuShare))))),
      ])
      return createGroup({
        folders: [group],
        killsFile: join(group, 'memory.events'),
        statistics: join(group, 'memory.stat'),
        counted: ['anon', 'shmem'],
      })
    },
    remove: () => removeGroupFolders([folder]),
  }
}

/** Whether a process is this one, above it or below it. */
function isRelative(pid: number): boolean {
  return pid === process.pid || listDescendants(process.pid).includes(pid) || listDescendants(pid).includes(process.pid)
}

interface GroupFiles {
  folders: string[]
  /** Holds one of them beside others, and goes with the last. */
  owner?: string
  /** Holds a line `oom_kill N`. */
  killsFile: string
  /** Holds lines of name and bytes. */
  statistics: string
  counted: string[]
}

function createGroup({ folders, owner, killsFile, statistics, counted }: GroupFiles): ControlGroup {
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
    memoryBytes: async () => {
      const numbers = await readNumbers(statistics)
      return counted.reduce((sum, name) => sum + (numbers.get(name) ?? 0), 0)
    },
    kill: () => killGroups(folders),
    isEmpty: () => listMembers(folders).length === 0,
    remove: async () => {
      await removeGroups(folders)
      if (owner !== undefined) tryRemove(owner)
    },
  }
}

function listMembers(folders: string[]): number[] {
  const members = new Set<number>()
  for (const folder of folders)
    try {
      for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n'))
        if (pid !== '') members.add(Number(pid))
    } catch {
      // Removed already.
    }
  // A zombie has ended; its parent has not collected it yet.
  return [...members].filter((pid) => findProcess(pid) !== undefined)
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

/** Gives up after 10 s: what hangs in the kernel that long cannot be killed, and the group stays for the next start to remove. */
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

/** Removes folders that openControlGroups made, with the groups in them and every process of those. Safe to repeat. */
export async function removeGroupFolders(folders: string[]): Promise<void> {
  for (const folder of folders) {
    if (!basename(folder).startsWith('sandbox-'))
      throw new Error(`${folder} is no folder of control groups of a sandbox`)
    const entries = await listGroups(folder)
    await Promise.all(
      entries.map(async (entry) => {
        for (const inner of await listGroups(entry)) await removeGroups([inner])
        await removeGroups([entry])
      }),
    )
    await rmdir(folder).catch(() => {
      // What could not be killed is still in it.
    })
  }
}

/** Groups in a group; none if it has been removed. */
async function listGroups(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    return entries.filter((each) => each.isDirectory()).map(({ name }) => join(folder, name))
  } catch {
    // Removed already.
    return []
  }
}
