import { lstat, mkdir } from 'node:fs/promises'

/**
 * Creates a folder that only this process's user may change, or verifies an existing one. If the path is predictable, such as one
 * in /tmp, another user could create it first, and then read and replace what this process stores there; such a folder is
 * refused. Throws an Error for the operator. Safe to repeat.
 *
 * folder: absolute. Parents are created too.
 */
export async function makeOwnFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o711 })
  // lstat, to see links as links.
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
