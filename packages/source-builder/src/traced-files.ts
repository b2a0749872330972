import type { Stats } from 'node:fs'
import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

// A trace is written by the user of a build, and says no more than which files its author wants.

/** How much a trace may print. */
export const TRACE_BYTES_MAX = 16_777_216
/** More than may be deployed: a trace also names files of other folders. */
const PATHS_MAX = 200_000

/** Parses what a trace printed: paths, each with a NUL behind it. Returns undefined if there are too many. */
export function readTrace(printed: Buffer): string[] | undefined {
  const paths = printed.toString('utf8').split('\0', PATHS_MAX + 1)
  return paths.length > PATHS_MAX ? undefined : paths.filter((path) => path !== '')
}

/** A folder of the project that belongs to a server. */
export interface TracedPlace {
  /** Its path below the project. */
  path: string
  /** Absolute; no part of it is a link. */
  start: string
}

/** A file or link that a trace names. */
interface TracedEntry {
  /** Below the project, through no link. */
  path: string
  /** Absolute; no part of it but the last may be a link. */
  source: string
  stats: Stats
}

/**
 * Looks up the files and links that a trace names. Leaves out what is not there, is neither file nor link, or is not in one of the places
 * once the links on its way are followed. project: absolute; nothing writes to it.
 */
export async function* findTraced(
  project: string,
  places: readonly TracedPlace[],
  paths: readonly string[],
): AsyncGenerator<TracedEntry> {
  const folders = new Map<string, Promise<string | undefined>>()
  const realOf = (folder: string): Promise<string | undefined> => {
    const known = folders.get(folder) ?? realpath(folder).catch(() => undefined)
    folders.set(folder, known)
    return known
  }
  for (const named of paths) {
    const folder = await realOf(dirname(join(project, named)))
    if (folder === undefined) continue
    const source = join(folder, basename(named))
    const place = places.find(({ start }) => source.startsWith(`${start}/`))
    if (place === undefined) continue
    const stats = await lstat(source).catch(() => undefined)
    if (stats?.isFile() === true || stats?.isSymbolicLink() === true)
      yield { path: join(place.path, source.slice(place.start.length + 1)), source, stats }
  }
}
