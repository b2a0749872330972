import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'

/**
 * What a sign-in rests on, checked before by whoever took it. It is asked once more in the transaction that starts the session,
 * which has the account's row locked: answers whether it still holds, and uses up what counts once.
 */
export type Proof = (
  tx: Pick<Db, 'insert' | 'update'>,
  time: Date,
  account: { id: string; passwordHash: string | null },
) => Promise<boolean>

/** What stands for a password hash outside of the database. */
export const passwordStampOf = (passwordHash: string): string =>
  createHash('sha256').update(passwordHash).digest('base64url')

/** Two proofs of which both have to hold; the second is not asked, so not used up, where the first does not. */
export const bothProofs =
  (first: Proof, second: Proof): Proof =>
  async (...proofArguments) =>
    (await first(...proofArguments)) && second(...proofArguments)

/** The password that had this stamp when it was checked: another one set meanwhile makes it worth nothing. */
export const passwordProof =
  (passwordStamp: string): Proof =>
  async (_tx, _at, { passwordHash }) =>
    passwordHash !== null && passwordStampOf(passwordHash) === passwordStamp
