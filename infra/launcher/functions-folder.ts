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
import { dirname, join } from 'node:path'
import { StartProblem } from './start-problem.ts'

/** Sockets are created below it, and a socket's path has at most 107 bytes. */
const lengthMax = 41
const prefix = 'platform-fn-'
/** Contains the path of the data folder that the folder belongs to. */
const ownerFile = 'data-folder'

/**
 * Creates the folder for files and sockets of Functions: one per data folder and user, below the temporary folder, reused at
 * the next start. Functions run as separate users, so everybody may traverse it and only its owner may list it. Removes
 * folders whose data folder is gone.
 *
 * dataFolder: absolute; exists. Throws StartProblem if the folder belongs to somebody else.
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
  try {
    chmodSync(folder, 0o711)
    writeFileSync(join(folder, ownerFile), dataFolder, { mode: 0o600 })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw refuse(folder, error)
  }
  return folder
}

const refuse = (folder: string, cause: unknown): StartProblem =>
  new StartProblem(
    (cause as NodeJS.ErrnoException).code === 'ENOSPC'
      ? `The disk of the temporary folder ${dirname(folder)} is full: free some space, or name a folder on another disk with TMPDIR.`
      : `${folder} cannot be used for Functions: remove it, or name another folder with FUNCTIONS_FOLDER, such as /var/cache/fn.`,
    { cause },
  )

/** The system's temporary folder, unless its path is too long, as on macOS. */
function findTemporaryFolder(): string {
  const folder = realpathSync(tmpdir())
  return join(folder, `${prefix}00000000`).length <= lengthMax ? folder : '/tmp'
}

/** True for a folder of ours that is not a link. */
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
      // Another launcher is creating or removing it right now.
    }
  }
}
