import { execFile } from 'node:child_process'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const hasGone = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')

/**
 * Whether the files below the folders exceed a limit in bytes or in number. Files that disappear meanwhile do not count, and links
 * are not followed. A folder that cannot be read exceeds every limit: a program can nest folders deeper than a path can name.
 */
export async function isLarger(folders: string[], limit: { bytes: number; entries: number }): Promise<boolean> {
  const waiting = [...folders]
  let bytes = 0
  let entries = 0
  try {
    for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
      for (const entry of await readdir(folder, { withFileTypes: true }).catch(noneIfGone)) {
        const path = join(folder, entry.name)
        entries += 1
        if (entry.isDirectory()) waiting.push(path)
        else bytes += (await lstat(path).catch(undefinedIfGone))?.size ?? 0
        if (bytes > limit.bytes || entries > limit.entries) return true
      }
    }
  } catch {
    return true
  }
  return false
}

function noneIfGone(error: unknown): [] {
  if (!hasGone(error)) throw error
  return []
}

function undefinedIfGone(error: unknown): undefined {
  if (!hasGone(error)) throw error
}

/**
 * Removes a folder that a slot may have written to, or a file in its place. Safe to repeat, and while others still write to it: Node
 * names files by whole paths, so a link put in the way of one would lead it out of the folder. rm goes by open folders.
 */
export async function removeFolder(path: string): Promise<void> {
  if (await isThere(path)) await promisify(execFile)('rm', ['-rf', '--', path])
}

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    (error: unknown) => !hasGone(error),
  )
