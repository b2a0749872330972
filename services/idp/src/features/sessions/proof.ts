import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'

/**
 * The basis of a sign-in, which its creator has already checked. It is checked again in the transaction that starts the
 * session, which has locked the account's row: returns whether it still holds, and consumes what is single-use.
 */
export type Proof = (
  tx: Pick<Db, 'insert' | 'update'>,
  time: Date,
  account: { id: string; passwordHash: string | null },
) => Promise<boolean>

/** The stand-in for a password hash outside the database. */
export const passwordStampOf = (passwordHash: string): string =>
  createHash('sha256').update(passwordHash).digest('base64url')

/** Combines two proofs that both have to hold; if the first fails, the second is not checked, so not consumed. */
export const bothProofs =
  (first: Proof, second: Proof): Proof =>
  async (...proofArguments) =>
    (await first(...proofArguments)) && second(...proofArguments)

/** Proves the password that had this stamp when it was checked; fails if another was set meanwhile. */
export const passwordProof =
  (passwordStamp: string): Proof =>
  async (_tx, _at, { passwordHash }) =>
    passwordHash !== null && passwordStampOf(passwordHash) === passwordStamp
