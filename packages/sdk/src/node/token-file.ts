import { open, readFile, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { StoredToken, TokenStore } from '../credentials/token-store.ts'
import { underLock } from './process-lock.ts'

/**
 * Keeps a sign-in in a file that the processes of this machine share. The file is for its owner alone (0600), and so is its folder
 * (0700) where this makes it. Whoever reads finds a whole sign-in, before or after a write. Throws what the file system says.
 */
export function tokenFile(path: string): TokenStore {
  const place = resolve(path)
  return {
    async read() {
      try {
        return JSON.parse(await readFile(place, 'utf8')) as StoredToken
      } catch (error) {
        // What is no JSON is no sign-in: the next one replaces it.
        if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw error
      }
    },
    async write(token) {
      if (!token) return rm(place, { force: true })
      const draft = `${place}.new`
      // Left by a process that was killed.
      await rm(draft, { force: true })
      const file = await open(draft, 'wx', 0o600)
      try {
        await file.writeFile(JSON.stringify(token))
        // The token before it is used up: a file that a power cut empties would sign the person out.
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(draft, place)
    },
    lock: (work) => underLock(`${place}.lock`, work),
  }
}
