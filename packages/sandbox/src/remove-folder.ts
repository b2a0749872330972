import { execFile } from 'node:child_process'
import { lstat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0

/**
 * Removes a folder that a command may have written to, or a file in its place. Safe to repeat, and while others still write
 * to it. Uses rm, which walks by open folder descriptors: Node names files by whole paths, so a link put in the way could
 * lead it out of the folder, and folders can nest deeper than a path can name.
 */
export async function removeFolder(path: string): Promise<void> {
  if (!(await isThere(path))) return
  // Root may remove files that their owner has no rights to; other users give themselves the rights first.
  if (!isRoot) await run('chmod', ['-R', 'u+rwX', '--', path]).catch(() => undefined)
  await run('rm', ['-rf', '--', path])
}

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => !['ENOENT', 'ENOTDIR'].includes(error.code ?? ''),
  )
