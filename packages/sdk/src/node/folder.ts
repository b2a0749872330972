import { constants, type Stats } from 'node:fs'
import { lstat, open, readdir, readlink } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { type PackEntry, type PackSource, pathIn } from '../pack/source.ts'

/** A file that became a link after it was looked at is not followed. Windows has no such flag. */
const FLAGS = constants.O_RDONLY | ((constants as { O_NOFOLLOW?: number }).O_NOFOLLOW ?? 0)

/** A folder of the file system, to pack. Links in it are not followed. Throws what the file system says of a folder it cannot read. */
export function folder(path: string): PackSource {
  const top = resolve(path)
  return {
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
    open: () => contentOf(place),
  }
}

async function* contentOf(place: string): AsyncGenerator<Uint8Array> {
  const file = await open(place, FLAGS)
  // It closes the file at its end, and when it is left before.
  yield* file.createReadStream() as AsyncIterable<Buffer>
}
