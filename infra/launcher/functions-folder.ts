import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StartProblem } from './start-problem.ts'

/** Sockets are made below it, and the address of a socket has 107 bytes. */
const lengthMax = 41
const prefix = 'platform-fn-'
/** Names the data folder that a folder belongs to. */
const ownerFile = 'data-folder'

/**
 * Makes the folder for the files and sockets of Functions: one for each data folder and user, below the temporary folder, used again
 * at the next start. Functions run as users of their own, so everybody may pass through it and nobody else may list it.
 * Removes those whose data folder is gone.
 *
 * dataFolder: absolute; exists. Throws StartProblem where the folder is somebody else's.
 */
export function makeFunctionsFolder(dataFolder: string): string {
  const below = findTemporaryFolder()
  removeAbandoned(below)
  const owner = `${process.getuid?.() ?? ''} ${realpathSync(dataFolder)}`
  const folder = join(below, prefix + createHash('sha256').update(owner).digest('hex').slice(0, 8))
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refuse(folder, error)
    if (!isOwn(folder)) throw refuse(folder, error)
  }
  chmodSync(folder, 0o711)
  writeFileSync(join(folder, ownerFile), dataFolder, { mode: 0o600 })
  return folder
}

const refuse = (folder: string, cause: unknown): StartProblem =>
  new StartProblem(
    `${folder} cannot be used for Functions: remove it, or name another folder with FUNCTIONS_FOLDER, such as /var/cache/fn.`,
    { cause },
  )

/** The system's may be too long, as on macOS. */
function findTemporaryFolder(): string {
  const folder = realpathSync(tmpdir())
  return join(folder, `${prefix}00000000`).length <= lengthMax ? folder : '/tmp'
}

/** A folder, not a link to one, that another user did not put there. */
function isOwn(folder: string): boolean {
  const stats = lstatSync(folder)
  return stats.isDirectory() && stats.uid === process.getuid?.()
}

function removeAbandoned(below: string): void {
  for (const name of readdirSync(below)) {
    if (!name.startsWith(prefix)) continue
    const folder = join(below, name)
    try {
      if (!isOwn(folder)) continue
      const dataFolder = readFileSync(join(folder, ownerFile), 'utf8')
      if (statSync(dataFolder, { throwIfNoEntry: false }) === undefined)
        rmSync(folder, { recursive: true, force: true })
    } catch {
      // Another launcher makes or removes it at this moment.
    }
  }
}
