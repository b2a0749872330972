import { mkdir, mkdtemp, readdir, stat, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getuid } from 'node:process'
import { removeFolder } from '@platform/sandbox/remove-folder'

const PREFIX = 'platform-build-'
/** Longer than a folder in use goes without being touched. */
const STALE_MS = 120_000

/** A folder for one attempt, to be held by `await using`: it goes at the end of the scope with everything in it. */
export interface WorkFolder extends AsyncDisposable {
  path: string
  /** Says that it is still in use. Call it every half a minute at least. */
  touch(): Promise<void>
}

/** Makes a folder of one's own, which nobody else of the machine can look into. */
export async function openWorkFolder(): Promise<WorkFolder> {
  await mkdir(tmpdir(), { recursive: true })
  const path = await mkdtemp(join(tmpdir(), PREFIX))
  return {
    path,
    touch: () => utimes(path, new Date(), new Date()),
    // What cannot be removed now is removed once it is stale: it must not stand in the way of what became of the deployment.
    [Symbol.asyncDispose]: () => removeFolder(path).catch(() => undefined),
  }
}

/** Removes the folders of workers that were killed: those of this user that nobody touched for two minutes. Safe to repeat. */
export async function removeStaleFolders(): Promise<void> {
  const names = await readdir(tmpdir())
  for (const name of names.filter((each) => each.startsWith(PREFIX))) {
    const path = join(tmpdir(), name)
    const stats = await stat(path).catch(() => undefined) // somebody else removed it
    if (!stats || stats.uid !== getuid?.() || stats.mtimeMs > Date.now() - STALE_MS) continue
    await removeFolder(path)
  }
}
