import { mkdir, mkdtemp, readdir, stat, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getuid } from 'node:process'
import { removeFolder } from '@platform/sandbox/remove-folder'

const PREFIX = 'platform-build-'
/** A folder in use is always touched more often than this. */
const STALE_MS = 120_000

/** A folder for one attempt, held with `await using`: removed with its contents at the end of the scope. */
export interface WorkFolder extends AsyncDisposable {
  path: string
  /** Marks the folder as in use. Call it at least every half minute. */
  touch(): Promise<void>
}

/** Creates a private folder that no other user of the machine can read. */
export async function openWorkFolder(): Promise<WorkFolder> {
  await mkdir(tmpdir(), { recursive: true })
  const path = await mkdtemp(join(tmpdir(), PREFIX))
  return {
    path,
    touch: () => utimes(path, new Date(), new Date()),
    // If removal fails, the folder is removed once stale: cleanup must not affect the deployment's outcome.
    [Symbol.asyncDispose]: () => removeFolder(path).catch(() => undefined),
  }
}

/** Removes the folders of killed workers: this user's folders untouched for two minutes. Safe to repeat. */
export async function removeStaleFolders(): Promise<void> {
  const names = await readdir(tmpdir())
  for (const name of names.filter((each) => each.startsWith(PREFIX))) {
    const path = join(tmpdir(), name)
    const stats = await stat(path).catch(() => undefined) // somebody else removed it
    if (!stats || stats.uid !== getuid?.() || stats.mtimeMs > Date.now() - STALE_MS) continue
    await removeFolder(path)
  }
}
