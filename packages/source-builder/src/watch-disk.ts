import { spawn } from 'node:child_process'
import { stat, statfs } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** What a folder uses on its disk. */
interface Taken {
  bytes: number
  /** Files, folders and links. */
  entries: number
  /** Deleted files that processes of the build hold open. */
  nameless: number
}

export interface DiskLimit {
  /** Absolute. */
  folder: string
  bytesMax: number
  entriesMax: number
  /** Processes that write to it: a deleted file that they hold open still takes its space. */
  listProcesses(): readonly number[]
  /** Called once with the limit that was exceeded. */
  onFull(limit: 'bytes' | 'entries'): void
  /** Called once if the folder could not be measured; measuring is retried. */
  onWarning(error: unknown): void
}

export interface DiskWatch {
  /** Measures now. Returns the exceeded limit, if any. */
  look(): Promise<'bytes' | 'entries' | undefined>
  stop(): void
}

const LOOK_MS = 200
/** Measuring every file takes time; it may take at most this fraction of the time. */
const PART = 0.2
/** Measures at least this often, however little the disk lost. */
const LOOK_ANYWAY_MS = 30_000
const BLOCK = 512
/** Limit of open deleted files: a build has a handful. */
const NAMELESS_MAX = 65_536

/**
 * Counts blocks, not lengths: a sparse file takes no space. du walks by open folder descriptors, however deep they nest. It
 * reports every file that disappears while it runs, which a build could cause without end: stderr is ignored.
 */
async function count(folder: string, ...args: string[]): Promise<number> {
  const du = spawn('du', ['-sx', ...args, '--', folder], { stdio: ['ignore', 'pipe', 'ignore'] })
  const failed = new Promise<never>((_, reject) => void du.once('error', reject))
  const counted = Number.parseInt(await Promise.race([text(du.stdout), failed]), 10)
  if (Number.isNaN(counted)) throw new Error(`du did not measure ${folder}`)
  return counted
}

/** Space of deleted files that processes hold open or mapped. */
async function countNameless(folder: string, processes: readonly number[]): Promise<{ bytes: number; files: number }> {
  const { dev } = await stat(folder)
  const sizes = new Map<string, number>()
  if (processes.length === 0) return { bytes: 0, files: 0 }
  const places = processes.flatMap((pid) => [`/proc/${pid}/fd`, `/proc/${pid}/map_files`])
  const what = ['-maxdepth', '1', '-type', 'f', '-links', '0', '-printf', '%D %i %b\\n']
  const find = spawn('find', ['-L', ...places, ...what], { stdio: ['ignore', 'pipe', 'ignore'] })
  const failed = new Promise<never>((_, reject) => void find.once('error', reject))
  const read = async (): Promise<void> => {
    for await (const line of createInterface({ input: find.stdout })) {
      const [device, file = '', blocks] = line.split(' ')
      if (Number(device) === dev) sizes.set(file, Number(blocks) * BLOCK)
      if (sizes.size > NAMELESS_MAX) break
    }
    find.kill()
  }
  await Promise.race([read(), failed])
  return { bytes: sizes.values().reduce((sum, bytes) => sum + bytes, 0), files: sizes.size }
}

/**
 * Watches how much is written below a folder, if no file system limits it. Every 200 ms it reads the free space of the whole
 * disk, which costs nothing, and measures the folder once the disk has lost half of what the folder may still grow by. So the
 * limit can be exceeded by what can be written in about a quarter of a second; by as much again as the limit if there are so
 * many files that measuring is slow.
 */
export function watchDisk(limit: DiskLimit): DiskWatch {
  const { folder, bytesMax, entriesMax, onFull, onWarning } = limit
  const stopping = new AbortController()
  const { signal } = stopping

  async function measure(): Promise<Taken> {
    const [bytes, entries, nameless] = await Promise.all([
      count(folder, '--block-size=1'),
      // Each hard link of a file counts, since each takes time to remove.
      count(folder, '--inodes', '--count-links'),
      countNameless(folder, limit.listProcesses()),
    ])
    return { bytes: bytes + nameless.bytes, entries: entries + nameless.files, nameless: nameless.files }
  }
  const passed = ({ bytes, entries, nameless }: Taken): 'bytes' | 'entries' | undefined => {
    if (bytes > bytesMax) return 'bytes'
    return entries > entriesMax || nameless > NAMELESS_MAX ? 'entries' : undefined
  }

  async function watch(): Promise<void> {
    let taken: Taken = { bytes: 0, entries: 0, nameless: 0 }
    let { bavail, ffree } = await statfs(folder)
    let lookedAt = Number.NEGATIVE_INFINITY
    let lookMs = 0
    let hasWarned = false
    for (; !signal.aborted; await sleep(LOOK_MS, undefined, { signal, ref: false })) {
      const now = await statfs(folder)
      // Space freed by others meanwhile must not hide what the build wrote.
      bavail = Math.max(bavail, now.bavail)
      ffree = Math.max(ffree, now.ffree)
      const lostBytes = (bavail - now.bavail) * now.bsize
      const sinceMs = performance.now() - lookedAt
      const isDue =
        lostBytes > (bytesMax - taken.bytes) / 2 ||
        ffree - now.ffree > (entriesMax - taken.entries) / 2 ||
        sinceMs > LOOK_ANYWAY_MS
      if (!isDue || (sinceMs < lookMs / PART && lostBytes < bytesMax)) continue
      lookedAt = performance.now()
      try {
        taken = await measure()
        ;({ bavail, ffree } = now)
      } catch (error) {
        if (!hasWarned && !signal.aborted) onWarning(error)
        hasWarned = true
      }
      lookMs = performance.now() - lookedAt
      const full = passed(taken)
      if (full === undefined) continue
      if (!signal.aborted) onFull(full)
      return
    }
  }
  watch().catch((error: unknown) => {
    if (!signal.aborted) onWarning(error)
  })
  return { look: async () => passed(await measure()), stop: () => stopping.abort() }
}
