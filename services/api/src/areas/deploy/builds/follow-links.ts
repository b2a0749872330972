import { dirname } from 'node:path'
import { setImmediate as untilNextTurn } from 'node:timers/promises'
import { UnusableOutput } from '@platform/build-output/read-output'
import { Warnings } from '@platform/build-output/warnings'
import { DEPTH_MAX, ENTRIES_MAX, refuse, shown } from './refuse-entry.ts'

const LINKS_FOLLOWED_MAX = 40
/** Limit of path segments walked while following all links: fifty for each possible entry. */
const LINK_STEPS_MAX = 2_500_000
/** Steps between two turns of the event loop: some 10 ms. */
const STEPS_AT_ONCE = 20_000

interface Options {
  /** The paths of the archive's own entries, their folders included. */
  places: { has(path: string): boolean }
  /** Limit of all files together, those that links lead to included. */
  bytesMax: number
  signal: AbortSignal
}

const tooLarge = (): UnusableOutput => new UnusableOutput('The archive becomes too large once its links are followed')

/**
 * Creates a function that follows links among the archive's entries, as a file system would. takeSteps: called with the number of
 * names walked.
 */
function createLinkResolver(
  links: ReadonlyMap<string, string>,
  places: Options['places'],
  takeSteps: (steps: number) => void,
) {
  /** Resolves a path to its target, or to the reason why it has none. */
  return (path: string): { target: string } | { why: string } => {
    const rest = path.split('/').toReversed()
    const segments: string[] = []
    for (let followed = 0; rest.length > 0;) {
      const segment = rest.pop() ?? ''
      if (segment === '' || segment === '.') continue
      if (segment === '..') {
        if (segments.length === 0) return { why: 'leads out of the archive' }
        segments.pop()
        continue
      }
      segments.push(segment)
      takeSteps(segments.length)
      const target = links.get(segments.join('/'))
      if (target === undefined) continue
      if (++followed > LINKS_FOLLOWED_MAX) return { why: 'leads in a circle' }
      if (target.startsWith('/') || target.includes('\\') || target.includes('\0'))
        return { why: 'leads out of the archive' }
      segments.pop()
      rest.push(...target.split('/').toReversed())
    }
    const target = segments.join('/')
    return places.has(target) ? { target } : { why: 'leads to nothing' }
  }
}

/** Entries of each folder, by the folder's path. */
function entriesByFolder(paths: Iterable<string>): Map<string, Set<string>> {
  const inFolder = new Map<string, Set<string>>()
  for (const path of paths) {
    for (let child = path; child !== ''; child = child.includes('/') ? dirname(child) : '') {
      const folder = child.includes('/') ? dirname(child) : ''
      const known = inFolder.get(folder)
      if (!known) inFolder.set(folder, new Set([child]))
      else if (known.has(child)) break
      else known.add(child)
    }
  }
  return inFolder
}

const parentsOf = (path: string): string[] =>
  path
    .split('/')
    .map((_, n, segments) => segments.slice(0, n).join('/'))
    .slice(1)

/** A path to add, and the entry that it leads to. open: the folders around it, to detect one that contains itself. */
interface Addition {
  path: string
  linkPath: string
  open: readonly string[]
}

/**
 * Adds the targets of links to `files` under the links' own paths. Linked folders that hold links are expanded as well. Lets other
 * work of the process go on meanwhile: a small archive can ask for millions of steps.
 *
 * Returns sentences about links that were skipped. Throws UnusableOutput if there is too much to add, or the abort reason of
 * `signal`.
 */
export async function followLinks<File extends { bytes: number }>(
  files: Map<string, File>,
  links: ReadonlyMap<string, string>,
  { places, bytesMax, signal }: Options,
): Promise<string[]> {
  const warnings = new Warnings()
  let steps = 0
  let pauseAt = STEPS_AT_ONCE
  // A few folders that link to each other twice have more paths than can ever be walked, perhaps without a single file.
  const takeSteps = (taken: number): void => {
    steps += taken
    if (steps > LINK_STEPS_MAX) throw tooLarge()
  }
  const resolve = createLinkResolver(links, places, takeSteps)
  const inFolder = entriesByFolder([...files.keys(), ...links.keys()])
  let bytes = 0
  for (const file of files.values()) bytes += file.bytes

  /** Adds a file. Returns what is to be added for a folder, the last one first. */
  function add({ path, linkPath, open }: Addition): Addition[] {
    takeSteps(1)
    const resolution = links.has(linkPath) ? resolve(linkPath) : { target: linkPath }
    if ('why' in resolution) {
      warnings.add(`The link ${shown(path)} ${resolution.why} and was left out`)
      return []
    }
    const { target } = resolution
    const file = files.get(target)
    if (file) {
      if (!files.has(path)) bytes += file.bytes
      files.set(path, file)
      if (files.size > ENTRIES_MAX || bytes > bytesMax) throw tooLarge()
      return []
    }
    if (open.includes(target) || target === '') {
      warnings.add(`The link ${shown(path)} leads to a folder that holds it and was left out`)
      return []
    }
    if (path.split('/').length > DEPTH_MAX)
      throw refuse(path, `lies more than ${DEPTH_MAX} folders deep once links are followed`)
    const within = [...open, target]
    return Array.from(inFolder.get(target) ?? [], (child) => ({
      path: `${path}/${child.slice(target.length + 1)}`,
      linkPath: child,
      open: within,
    })).toReversed()
  }

  for (const link of links.keys()) {
    const pending: Addition[] = [{ path: link, linkPath: link, open: parentsOf(link) }]
    for (let next = pending.pop(); next; next = pending.pop()) {
      for (const addition of add(next)) pending.push(addition)
      if (steps < pauseAt) continue
      pauseAt = steps + STEPS_AT_ONCE
      await untilNextTurn()
      signal.throwIfAborted()
    }
  }
  return warnings.list()
}
