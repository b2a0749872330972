import { constants, type Stats } from 'node:fs'
import { lstat, open, readdir, readlink } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { type PackEntry, type PackSource, pathIn } from '../pack/source.ts'

/** A file that became a link after it was looked at is not followed. Windows has no such flag. */
const PIECE_BYTES = 65_536
const FLAGS = constants.O_RDONLY | ((constants as { O_NOFOLLOW?: number }).O_NOFOLLOW ?? 0)

/** A folder of the file system, to pack. Links in it are not followed. Throws what the file system says of a folder it cannot read. */
export function folder(path: string): PackSource {
  const top = resolve(path)
  return {
    deflate: (content) => deflateRawSync(content),
    list: async (below) => Promise.all((await readdir(join(top, below))).map((name) => look(top, pathIn(below, name)))),
  }
}

async function look(top: string, path: string): Promise<PackEntry> {
  const place = join(top, path)
  let stats: Stats
  try {
    stats = await lstat(place)
  } catch {
    // A name that is not UTF-8 is not found again by its text.
    return { kind: 'other', path }
  }
  if (stats.isDirectory()) return { kind: 'folder', path }
  if (stats.isSymbolicLink()) return { kind: 'link', path, target: (await readlink(place)).replaceAll(sep, '/') }
  if (!stats.isFile()) return { kind: 'other', path }
  return {
    kind: 'file',
    path,
    bytes: stats.size,
    isExecutable: (stats.mode & 0o111) !== 0,
    open: () => contentOf(place, stats.size),
  }
}

/** Read by hand: a stream costs a small file most of its time. Each piece is good until the next. */
async function* contentOf(place: string, bytes: number): AsyncGenerator<Uint8Array> {
  const file = await open(place, FLAGS)
  try {
    // One byte more, so that the end of a small file is seen with its content.
    const buffer = Buffer.allocUnsafe(Math.min(bytes + 1, PIECE_BYTES))
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null)
      if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
      if (bytesRead < buffer.length) return
    }
  } finally {
    await file.close()
  }
}
