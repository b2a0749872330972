import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

const missingCodes: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** Turns the failure of a look at a file that is not there into undefined. Throws any other. */
export const ifMissing = (error: unknown): undefined => {
  if (!missingCodes.has((error as NodeJS.ErrnoException).code)) throw error
}

/**
 * Opens a regular file; undefined: there is none. Follows no link, so that the folder's owner decides what is served; and waits for
 * no pipe.
 */
export async function openFile(path: string): Promise<FileHandle | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(ifMissing)
  if (!handle || (await handle.stat()).isFile()) return handle
  await handle.close()
}
