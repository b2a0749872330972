import type { StoredToken, TokenStore } from '../credentials/token-store.ts'
import { privateFile } from './private-file.ts'

/** Keeps a sign-in in a file of its own (see `privateFile`). What is no JSON is no sign-in: the next one replaces it. */
export function tokenFile(path: string): TokenStore {
  const file = privateFile(path)
  return {
    async read() {
      const text = await file.read()
      if (text === undefined) return undefined
      try {
        return JSON.parse(text) as StoredToken
      } catch {
        return undefined
      }
    },
    write: (token) => file.write(token && JSON.stringify(token)),
    lock: file.lock,
  }
}
