import { Argon2id } from 'oslo/password'
import type { Hashing } from '../../services/idp/src/features/accounts/hashing.ts'

/**
 * Hashes with Argon2id in this process, at next to no cost: most tests need a password that fits, and not one that is hard to
 * guess. The real cost, process and priority are in hashing.test.ts, startup.test.ts and the first test of passwords.test.ts.
 */
export function createCheapHashing(): Hashing {
  const cost = { memoryKiB: 64, passes: 1 }
  const argon2id = new Argon2id({ memorySize: cost.memoryKiB, iterations: cost.passes })
  return {
    cost,
    hash: (password) => argon2id.hash(password),
    verify: (hash, password) => argon2id.verify(hash, password),
    close: () => {},
  }
}
