import { lstat, mkdir } from 'node:fs/promises'

/**
 * Makes a folder that only this process's user may change, or takes one that is there already. Another user who knows the path, such as
 * one in /tmp, could make it first, and then read and replace what this process puts there: such a folder is refused. Throws an Error for
 * the operator. Safe to repeat.
 *
 * folder: absolute. Parents are made too.
 */
export async function makeOwnFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o711 })
  // Of the path itself, so that a link is seen as one.
  const stats = await lstat(folder)
  const obstacle = !stats.isDirectory()
    ? 'is a link'
    : stats.uid !== process.getuid?.()
      ? 'belongs to another user'
      : (stats.mode & 0o022) !== 0
        ? 'can be written to by other users'
        : undefined
  if (obstacle !== undefined)
    throw new Error(
      `The folder for Functions, ${folder}, ${obstacle}: remove it, or set FUNCTIONS_FOLDER to one that is the platform's alone`,
    )
}
