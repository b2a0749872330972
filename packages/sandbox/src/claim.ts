import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProcess, isRunning, listDescendants, listProcessGroup, type ProcessIdentity } from './process-tree.ts'

/** User ids for commands, in blocks: one block per open sandbox. */
const USERS_FROM = 61_000
const USERS_IN_BLOCK = 100
const BLOCKS = 40
/** Machine-wide, since user ids are. */
export const RUN_FOLDER = '/run/platform-sandbox'

const isIdentity = (value: unknown): value is ProcessIdentity =>
  typeof value === 'object' && value !== null && 'pid' in value && 'startedAt' in value

function readIdentity(file: string): ProcessIdentity | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isIdentity(value) ? value : undefined
  } catch {
    // Missing, or only partly written.
    return undefined
  }
}

/** The process named in a claim, if it still runs. */
function findClaimant(file: string): ProcessIdentity | undefined {
  const identity = readIdentity(file)
  return identity !== undefined && isRunning(identity) ? identity : undefined
}

function getOwnIdentity(): ProcessIdentity {
  const identity = findProcess(process.pid)
  if (identity === undefined) throw new Error('This process cannot find itself')
  return identity
}

/** Whether another running process has claimed a file. */
export function isHeldByAnother(file: string): boolean {
  const claimant = findClaimant(file)
  return claimant !== undefined && claimant.pid !== process.pid
}

/** Writes this process into a file. Throws, naming the other process, if a running one has claimed it. */
export function claim(file: string): void {
  const claimant = findClaimant(file)
  if (claimant !== undefined && claimant.pid !== process.pid)
    throw new Error(`${file} is held by process ${claimant.pid}: each process needs a folder of its own`)
  writeFileSync(`${file}.${process.pid}`, JSON.stringify(getOwnIdentity()))
  renameSync(`${file}.${process.pid}`, file)
}

/** User ids that no other sandbox of this machine hands out. */
export interface UserBlock {
  /** Takes the lowest free user id. Throws if all are in use. */
  take(): number
  giveBack(user: number): void
  release(): void
}

/** Claims a block of user ids. Throws if the machine has none left, or if /run is not writable. */
export function claimUsers(): UserBlock {
  const folder = join(RUN_FOLDER, 'users')
  mkdirSync(folder, { recursive: true })
  // Processes that start at the same time begin their search at different blocks.
  const first = process.pid % BLOCKS
  for (let offset = 0; offset < BLOCKS; offset++) {
    const block = (first + offset) % BLOCKS
    const file = join(folder, String(block))
    if (findClaimant(file) !== undefined) continue
    rmSync(file, { force: true })
    try {
      writeFileSync(file, JSON.stringify(getOwnIdentity()), { flag: 'wx' })
    } catch {
      // Another process was faster.
      continue
    }
    const from = USERS_FROM + block * USERS_IN_BLOCK
    const taken = new Set<number>()
    return {
      take: () => {
        for (let user = from; user < from + USERS_IN_BLOCK; user++)
          if (!taken.has(user)) {
            taken.add(user)
            return user
          }
        throw new Error(`${USERS_IN_BLOCK} commands run at once, and there are no users for more`)
      },
      giveBack: (user) => void taken.delete(user),
      release: () => rmSync(file, { force: true }),
    }
  }
  throw new Error('All users of sandboxes are taken on this machine')
}

/** Records the processes of running commands in a folder, so that the next process can end them. */
export interface Journal {
  /** name: of the command; pid: its outermost process. */
  add(name: string, pid: number): void
  remove(name: string): void
  /** Known processes of commands that still run: the outermost, its descendants, and its process group. */
  listProcesses(): number[]
  clear(): void
}

/** Opens a journal. folder: absolute; created. */
export function openJournal(folder: string): Journal {
  mkdirSync(folder, { recursive: true })
  return {
    add: (name, pid) => {
      const identity = findProcess(pid)
      if (identity !== undefined) writeFileSync(join(folder, name), JSON.stringify(identity))
    },
    remove: (name) => rmSync(join(folder, name), { force: true }),
    listProcesses: () =>
      readdirSync(folder).flatMap((name) => {
        const identity = readIdentity(join(folder, name))
        if (identity === undefined) return []
        const { pid } = identity
        if (isRunning(identity)) return [pid, ...listDescendants(pid), ...listProcessGroup(pid)]
        // A pid is not reused while its process group still has members.
        return findProcess(pid) === undefined ? listProcessGroup(pid) : []
      }),
    clear: () => {
      rmSync(folder, { recursive: true, force: true })
      mkdirSync(folder, { recursive: true })
    },
  }
}
