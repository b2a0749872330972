import { accessSync, constants, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StartProblem } from './start-problem.ts'

/**
 * Creates the data folder, readable only by its owner, and locks it for this process. The lock is an operating system lock on
 * a file (SQLite takes it), so it ends with the process however that ends.
 *
 * Throws StartProblem if the folder is not writable or another launcher holds it.
 */
export function holdDataFolder(folder: string): void {
  const pidFile = join(folder, 'launcher.pid')
  try {
    makeFolder(folder)
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    for (const name of ['logs', 'mail', 'objects']) makeFolder(join(folder, name))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why = isFile(folder) ? 'is a file' : `cannot be written (${code})`
    throw new StartProblem(
      `DATA_DIR ${folder} ${why}: name a folder that belongs to you, such as DATA_DIR=$HOME/platform.`,
      {
        cause: error,
      },
    )
  }
  try {
    held = new DatabaseSync(join(folder, 'launcher.lock'), { timeout: 0 })
    held.exec('pragma locking_mode = exclusive; begin exclusive')
  } catch (error) {
    const { errcode, message } = error as { errcode?: number; message: string }
    const sqliteBusy = 5
    throw new StartProblem(
      errcode === sqliteBusy
        ? `The platform already runs in ${folder} (process ${readPid(pidFile)}): stop it, or start another with its own DATA_DIR, API_PORT, IDP_PORT, EDGE_PORT and S3_PORT.`
        : `${join(folder, 'launcher.lock')} cannot be locked (${message}): put DATA_DIR on a local disk.`,
      { cause: error },
    )
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 })
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false

/** mkdirSync's own `recursive` never returns if a file system creates no folders and reports ENOENT, as /proc does. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return
  if (!existsSync(dirname(folder))) makeFolder(dirname(folder))
  mkdirSync(folder, { mode: 0o700 })
}

// A reference, so that the garbage collector does not close the file and release the lock.
let held: DatabaseSync | undefined

function readPid(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return 'unknown' // it has only just started
  }
}
