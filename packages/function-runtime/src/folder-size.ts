import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const hasGone = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')

/**
 * Whether the files below the folders exceed a limit in bytes or in number. Files that disappear meanwhile do not count, and
 * links are not followed. An unreadable folder exceeds every limit: a program can nest folders deeper than a path can name.
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
