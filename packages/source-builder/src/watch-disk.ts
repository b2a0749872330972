import { spawn } from 'node:child_process'
import { stat, statfs } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** What a folder takes on its disk. */
interface Taken {
  bytes: number
  /** Files, folders and links. */
  entries: number
  /** Files that have no name any more and are open in processes of the build. */
  nameless: number
}

export interface DiskLimit {
  /** Absolute. */
  folder: string
  bytesMax: number
  entriesMax: number
  /** Processes that write to it: a file that they removed and hold open takes as much as before. */
  listProcesses(): readonly number[]
  /** Told once, which limit was passed. */
  onFull(limit: 'bytes' | 'entries'): void
  /** Told once, why the folder could not be measured; it is tried again. */
  onWarning(error: unknown): void
}

export interface DiskWatch {
  /** Measures now. Returns the limit that is passed. */
  look(): Promise<'bytes' | 'entries' | undefined>
  stop(): void
}

const LOOK_MS = 200
/** A look at every file costs time, so it is taken at most for this part of it. */
const PART = 0.2
/** However little the disk lost. */
const LOOK_ANYWAY_MS = 30_000
const BLOCK = 512
/** Open files without a name: a build has a handful. */
const NAMELESS_MAX = 65_536

/**
 * Blocks, not lengths: a file full of holes takes nothing. du goes by open folders, however deep they nest. It names each file that went while it
 * looked, which a build may make happen without end: nobody listens to that.
 */
async function count(folder: string, ...args: string[]): Promise<number> {
  const du = spawn('du', ['-sx', ...args, '--', folder], { stdio: ['ignore', 'pipe', 'ignore'] })
  const failed = new Promise<never>((_, reject) => void du.once('error', reject))
  const counted = Number.parseInt(await Promise.race([text(du.stdout), failed]), 10)
  if (Number.isNaN(counted)) throw new Error(`du did not measure ${folder}`)
  return counted
}

/** What processes hold open, or mapped, of files that were removed. */
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
 * Watches what is written below a folder, where no file system limits it. Every 200 ms it asks how much room the whole disk has left, which costs
 * nothing, and looks through the folder once the disk has lost half of what the folder may still grow by. So the limit is passed by
 * what can be written in about a quarter of a second; by as much again as the limit where files are so many that a look takes long.
 */
export function watchDisk(limit: DiskLimit): DiskWatch {
  const { folder, bytesMax, entriesMax, onFull, onWarning } = limit
  const stopping = new AbortController()
  const { signal } = stopping

  async function measure(): Promise<Taken> {
    const [bytes, entries, nameless] = await Promise.all([
      count(folder, '--block-size=1'),
      // Each name of a file counts, since each takes time to remove.
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
      // What others removed meanwhile does not make up for what the build wrote.
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
