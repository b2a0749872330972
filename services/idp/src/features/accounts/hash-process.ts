import { constants, setPriority } from 'node:os'
import { Argon2id } from 'oslo/password'
import { HASH_COST } from './hash-cost.ts'

// The main module of a separate process: hashing.ts starts it and talks to it over the IPC channel.

/** `hash` is present to verify a password, and absent to create its hash. */
export interface HashRequest {
  id: number
  password: string
  hash: string | undefined
}
/** The new hash, whether the password matches, or why the request failed. */
export type HashAnswer = { id: number; result: string | boolean } | { id: number; failure: string }

// Other processes that need a core get ten times our share. At the lowest priority, where it is a hundred times, nobody could
// sign in on a machine that is busy with something else. The computing threads start later and inherit the priority.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
// A terminal sends these to the whole process group; ignoring them lets pending hashes finish.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit())

const argon2id = new Argon2id({ memorySize: HASH_COST.memoryKiB, iterations: HASH_COST.passes, parallelism: 1 })
const answer = (message: HashAnswer): void => void process.send?.(message)
process.on('message', ({ id, password, hash }: HashRequest) => {
  const work: Promise<string | boolean> = hash === undefined ? argon2id.hash(password) : argon2id.verify(hash, password)
  work.then(
    (result) => answer({ id, result }),
    (error: unknown) => answer({ id, failure: String(error) }),
  )
})
