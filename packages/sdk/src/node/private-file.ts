import { constants } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { underLock } from './process-lock.ts'

/** A file that only its owner may read, which processes of this machine share. */
export interface PrivateFile {
  /** undefined: there is none. */
  read(): Promise<string | undefined>
  /** Called within `lock`. Whoever reads meanwhile finds the whole text of before, or the whole new one. undefined removes it. */
  write(text: string | undefined): Promise<void>
  /** Does the work while no other process of this machine does work within the lock of this file. Makes its folder. */
  lock<T>(work: () => Promise<T>): Promise<T>
}

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants> & { O_RDONLY: number }
/** Opening a named pipe does not wait for its writer. Windows has neither of the two. */
const FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK
const ownUserId = process.geteuid?.()

/**
 * The file is 0600, and its folder 0700 where this makes it. Throws what the file system says, and Error for a link and for a file of
 * somebody else: who put it there decides what is in it.
 */
export function privateFile(path: string): PrivateFile {
  const place = resolve(path)
  return {
    async read() {
      try {
        const file = await open(place, FLAGS)
        try {
          const { uid } = await file.stat()
          if (ownUserId !== undefined && uid !== ownUserId)
            throw new Error(`${place} belongs to somebody else (user ${uid})`)
          return await file.readFile('utf8')
        } finally {
          await file.close()
        }
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'ENOENT') return undefined
        if (code === 'ELOOP') throw new Error(`${place} is a link, which is not followed`, { cause: error })
        throw error
      }
    },
    async write(text) {
      if (text === undefined) return rm(place, { force: true })
      const draft = `${place}.new`
      // Left by a process that was killed.
      await rm(draft, { force: true })
      const file = await open(draft, 'wx', 0o600)
      try {
        await file.writeFile(text)
        // A new token before the old one is used up: a file that a power cut empties would sign the person out.
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(draft, place)
    },
    lock: (work) => underLock(`${place}.lock`, work),
  }
}
