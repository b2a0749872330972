import { hash } from 'node:crypto'
import { Conflict, ValidationFailed } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { and, eq, gt, sql } from 'drizzle-orm'
import type { Actor } from './actor.ts'
import type { Core } from '../core.ts'
import { idempotentRequests } from './idempotency-table.ts'

const KEPT_MS = 86_400_000

/** A creation under an Idempotency-Key; repeating it does not create twice. */
export interface IdempotentRequest {
  actor: Actor
  operation: string
  /** The header's value: 1 to 255 characters of printable ASCII. */
  key: string
  /** Path and parsed body; a repeat must have the same ones. */
  asked: unknown
  /** False if the answer holds a secret that is shown once: repeats are then refused (D79). */
  isAnswerKept: boolean
}

/** Reads the header. Throws ValidationFailed if it is empty, longer than 255 characters or not printable ASCII. */
export function readIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined || /^[\x21-\x7e]{1,255}$/.test(header)) return header
  const message = 'Expected 1 to 255 characters of printable ASCII without spaces'
  throw new ValidationFailed('headers', [
    { property: '/idempotency-key', message, summary: message, expected: '1 to 255 characters', found: null },
  ])
}

const callerOf = (actor: Actor): string =>
  actor.kind === 'user' ? `user:${actor.userId}` : `${actor.kind}:${actor.keyId}`

const isOf = (callerId: string, operation: string, key: string) =>
  and(
    eq(idempotentRequests.callerId, callerId),
    eq(idempotentRequests.operation, operation),
    eq(idempotentRequests.key, key),
  )

/**
 * Runs a creation once per key. Its answer is stored for 24 hours, in the transaction that creates the resource, and repeats get
 * the stored answer. A failed creation stores nothing, so its repeat is a new attempt.
 *
 * create: must use the transaction it is given. Throws ValidationFailed for a repeat with another path or body, and Conflict
 * while the first is under way or if its answer was not kept.
 */
export async function createOnce(
  { db, now, sealer }: Pick<Core, 'db' | 'now' | 'sealer'>,
  { actor, operation, key, asked, isAnswerKept }: IdempotentRequest,
  create: (db: Db) => Promise<string>,
): Promise<{ answer: string; isRepeat: boolean }> {
  const callerId = callerOf(actor)
  const context = JSON.stringify(['idempotent_request', callerId, operation, key])
  const askedHash = hash('sha256', JSON.stringify(asked), 'base64url')
  return db.transaction(async (tx) => {
    // With an advisory lock a second request is refused at once; with a row lock it would wait for the first.
    const [lock] = await tx.execute<{ got: boolean }>(
      sql`select pg_try_advisory_xact_lock(hashtextextended(${context}, 0)) as got`,
    )
    if (!lock?.got) throw new Conflict('A request with this Idempotency-Key is under way')

    const same = isOf(callerId, operation, key)
    const [earlier] = await tx
      .select()
      .from(idempotentRequests)
      .where(and(same, gt(idempotentRequests.createdAt, new Date(now().getTime() - KEPT_MS))))
    if (earlier) {
      const { ciphertext, kekId } = earlier
      if (!ciphertext || kekId === null)
        throw new Conflict('This Idempotency-Key was used, and what it created is shown once')
      const kept = JSON.parse(sealer.open({ ciphertext, kekId }, context).toString()) as Kept
      if (kept.askedHash !== askedHash) throw askedOtherwise()
      return { answer: kept.answer, isRepeat: true }
    }

    // A nested transaction is a savepoint, so `create` may begin one.
    const answer = await create(tx)
    const kept: Kept = { askedHash, answer }
    const row = {
      createdAt: now(),
      ...(isAnswerKept ? sealer.seal(JSON.stringify(kept), context) : { ciphertext: null, kekId: null }),
    }
    await tx
      .insert(idempotentRequests)
      .values({ callerId, operation, key, ...row })
      .onConflictDoUpdate({
        target: [idempotentRequests.callerId, idempotentRequests.operation, idempotentRequests.key],
        set: row, // the earlier one is older than a day
      })
    return { answer, isRepeat: false }
  })
}

/** Forgets a creation that failed after its answer was stored, so that its repeat is a new attempt. */
export async function forgetOnce(
  { db }: Pick<Core, 'db'>,
  { actor, operation, key }: Pick<IdempotentRequest, 'actor' | 'operation' | 'key'>,
): Promise<void> {
  await db.delete(idempotentRequests).where(isOf(callerOf(actor), operation, key))
}

interface Kept {
  askedHash: string
  answer: string
}

function askedOtherwise(): ValidationFailed {
  const message = 'This Idempotency-Key was used for another request'
  return new ValidationFailed('headers', [
    { property: '/idempotency-key', message, summary: message, expected: 'the same path and body', found: null },
  ])
}

/** Deletes keys that are older than a day. */
export async function discardIdempotentRequests({ db, now }: Pick<Core, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, idempotentRequests.createdAt, new Date(now().getTime() - KEPT_MS))
}
