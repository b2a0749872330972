import { constants, setPriority } from 'node:os'
import { Argon2id } from 'oslo/password'

// A program of its own, started by hashing.ts and spoken to over its channel.

/** `hash` is absent where one is to be made, as it is of a right password. */
export interface HashRequest {
  id: number
  password: string
  hash: string | undefined
}
/** The hash that was made, whether the password fits, or why neither could be told. */
export type HashAnswer = { id: number; result: string | boolean } | { id: number; failure: string }

// Others who want a core come first, ten to one. At the lowest priority, where it is a hundred to one, a machine that is
// busy with something else would let nobody sign in. The threads that compute are started later and inherit it.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
// Sent to the whole group by a terminal; those who wait for a hash at that moment are still answered.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit())

const argon2id = new Argon2id()
const answer = (message: HashAnswer): void => void process.send?.(message)
process.on('message', ({ id, password, hash }: HashRequest) => {
  const work: Promise<string | boolean> = hash === undefined ? argon2id.hash(password) : argon2id.verify(hash, password)
  work.then(
    (result) => answer({ id, result }),
    (error: unknown) => answer({ id, failure: String(error) }),
  )
})
