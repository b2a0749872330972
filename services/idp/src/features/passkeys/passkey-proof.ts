import type { Db } from '@platform/runtime/database'
import { recordAudit } from '@platform/service/audit'
import { and, eq, lt, sql } from 'drizzle-orm'
import type { Proof } from '../sessions/proof.ts'
import { useChallenge } from './challenge.ts'
import { passkeys } from './table.ts'

/** A verified signature by a passkey. */
interface Assertion {
  passkeyId: string
  /** The authenticator's counter with this signature. */
  counter: number
  /** In base64url, as signed. */
  challenge: string
}

/**
 * An assertion as the proof that a session starts with: its challenge is consumed, the passkey has to exist still, and its
 * counter has to advance. A counter that goes back comes from a cloned authenticator: it is refused and recorded.
 */
export const passkeyProof =
  (assertion: Assertion): Proof =>
  (tx, time, { id }) =>
    takeAssertion(tx, time, id, assertion)

async function takeAssertion(
  tx: Pick<Db, 'insert' | 'update'>,
  time: Date,
  userId: string,
  { passkeyId, counter, challenge }: Assertion,
): Promise<boolean> {
  if (!(await useChallenge(tx, time, challenge))) return false
  const isOwn = and(eq(passkeys.id, passkeyId), eq(passkeys.userId, userId))
  const goesOn = counter === 0 ? eq(passkeys.counter, 0) : lt(passkeys.counter, counter)
  const taken = await tx
    .update(passkeys)
    .set({ counter, lastUsedAt: time })
    .where(and(isOwn, goesOn))
    .returning({ id: passkeys.id })
  if (taken.length > 0) return true
  const present = await tx
    .update(passkeys)
    .set({ counter: sql`${passkeys.counter}` })
    .where(isOwn)
    .returning({ id: passkeys.id })
  if (present.length > 0)
    await recordAudit(tx, time, {
      actor: 'system',
      action: 'passkey.counter_went_back',
      subject: `user:${userId}`,
      details: { passkeyId },
    })
  return false
}
