import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ApiError, BadGateway } from '@platform/errors/api-error'
import type { ByteRange } from '@platform/service/byte-range'
import type { Blobs, ChunkOwner } from '../objects/blobs.ts'

/** A socket delivers chunks of about 64 KiB; this many bytes are written to disk in one call. */
const WRITTEN_AT_ONCE = 262_144
const READ_AT_ONCE = 262_144

const failed = (cause: unknown): unknown =>
  cause instanceof ApiError ? cause : new BadGateway('The object store failed; try again later', cause)

/** Makes a folder's entries survive a loss of power. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

async function writeBatch(file: FileHandle, chunks: Buffer[], length: number): Promise<void> {
  const { bytesWritten } = await file.writev(chunks)
  // A disk that fills up accepts part of a write and fails only the next one.
  if (bytesWritten !== length) await file.writeFile(Buffer.concat(chunks).subarray(bytesWritten))
}

/** Writes chunks while the next ones arrive; at most one write is in flight. */
async function writeAll(file: FileHandle, source: AsyncIterable<Buffer>): Promise<void> {
  let chunks: Buffer[] = []
  let length = 0
  let writing: Promise<unknown> = Promise.resolve()
  const write = async () => {
    const [batch, bytes] = [chunks, length]
    ;[chunks, length] = [[], 0]
    await writing
    writing = writeBatch(file, batch, bytes)
    writing.catch(() => {}) // awaited before the next write
  }
  for await (const chunk of source) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= WRITTEN_AT_ONCE) await write()
  }
  if (length > 0) await write()
  await writing
}

/** Reads a file in order. Borrowed chunks share one buffer; owned ones get a new buffer each. */
async function* readChunks(path: string, { start, end }: ByteRange, chunks: ChunkOwner): AsyncGenerator<Buffer> {
  let file: FileHandle
  try {
    file = await open(path, 'r')
  } catch (error) {
    throw failed(error)
  }
  try {
    let buffer: Buffer | undefined
    for (let position = start; position <= end;) {
      const wanted = Math.min(end - position + 1, READ_AT_ONCE)
      if (!buffer || chunks === 'owned') buffer = Buffer.allocUnsafeSlow(wanted)
      const { bytesRead } = await file.read(buffer, 0, wanted, position)
      if (bytesRead === 0) throw failed(new Error(`A blob ended at ${position} of ${end + 1} bytes`))
      position += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

/**
 * Writes and removes a byte in a folder, or, where it is not made yet, in the nearest folder above it. Only writing tells: root
 * may write wherever permissions are asked for. Rejects with the error of the file system.
 */
export async function writeTrial(folder: string): Promise<void> {
  let existing = folder
  while (!(await stat(existing).catch(ifMissing))) existing = dirname(existing)
  const file = join(existing, `.trial-${randomUUID()}`)
  try {
    await writeFile(file, '.', { flag: 'wx', mode: 0o600 })
  } finally {
    await rm(file, { force: true }).catch(() => {}) // of a full disk it is there, and empty
  }
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/**
 * Keeps blobs in a folder, two levels deep by the last digits of their random ids. A blob is created under its final name: a
 * half-written one left by a crash belongs to a row that is still pending, and is removed with it.
 */
export function openFolder(root: string): Blobs {
  const pathOf = (id: string): string => join(root, id.slice(-2), id.slice(-4, -2), id)
  /** Folders that exist, or that a writer of this process is creating. */
  const known = new Map<string, Promise<void>>()

  /** Creates a folder below the root and syncs every parent it had to create. Concurrent callers wait for the same creation. */
  function makeFolder(folder: string): Promise<void> {
    const before = known.get(folder)
    if (before) return before
    const making = (async () => {
      if (folder !== root) await makeFolder(dirname(folder))
      const first = await mkdir(folder, { recursive: true, mode: 0o700 })
      if (first === undefined) return
      for (let made = folder; ; made = dirname(made)) {
        await syncFolder(dirname(made))
        if (made === first) break
      }
    })()
    known.set(folder, making)
    making.catch(() => known.delete(folder)) // the next writer tries again
    return making
  }

  return {
    lengthMax: () => Number.MAX_SAFE_INTEGER,
    async write(id, source) {
      const path = pathOf(id)
      const folder = dirname(path)
      let file: FileHandle
      try {
        await makeFolder(folder)
        file = await open(path, 'wx', 0o600)
      } catch (error) {
        known.delete(folder)
        throw failed(error)
      }
      try {
        await writeAll(file, source)
        await file.datasync()
        await file.close()
        await syncFolder(folder)
      } catch (error) {
        await file.close().catch(() => {})
        await rm(path, { force: true }).catch(() => {})
        throw isOfDisk(error) ? failed(error) : error
      }
    },
    read: (id, range, chunks) => readChunks(pathOf(id), range, chunks),
    async remove(ids) {
      for (const id of ids) {
        const path = pathOf(id)
        try {
          await rm(path, { force: true })
        } catch (error) {
          throw failed(error)
        }
        known.delete(dirname(path))
        await rmdir(dirname(path)).catch(() => {}) // fails while other blobs are in it
      }
    },
    check: () => writeTrial(root),
    close() {},
  }
}

/** True for errors of the file system; errors of the source are the client's. */
const isOfDisk = (error: unknown): boolean =>
  error instanceof Error &&
  ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE', 'EFBIG'].includes(
    (error as NodeJS.ErrnoException).code ?? '',
  )
