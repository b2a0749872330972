import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { recordAudit } from '@platform/service/audit'
import { and, count, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { formatCrockford, randomCrockford, readCrockford } from '../../crockford.ts'
import { notifySecurityChange } from '../mail/notify-security-change.ts'
import { recoveryCodes } from './table.ts'

const CODES = 10
const LENGTH = 16

/** Normalises a typed recovery code; undefined if it cannot be one. */
export const readRecoveryCode = (text: string): string | undefined => readCrockford(text, LENGTH)

const hashCode = (userId: string, code: string): Buffer => createHash('sha256').update(`${userId}\n${code}`).digest()

/**
 * Replaces a user's recovery codes with ten new ones, as part of the transaction of the change that requires it. Returns them
 * as people write them; only hashes are stored.
 */
export async function replaceRecoveryCodes(
  tx: Pick<Db, 'insert' | 'delete'>,
  at: Date,
  userId: string,
): Promise<string[]> {
  const codes = Array.from({ length: CODES }, () => randomCrockford(LENGTH))
  await tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId))
  await tx
    .insert(recoveryCodes)
    .values(codes.map((code) => ({ codeHash: hashCode(userId, code), userId, createdAt: at })))
  return codes.map((code) => formatCrockford(code))
}

export async function countRecoveryCodes({ db }: { db: Pick<Db, 'select'> }, userId: string): Promise<number> {
  const [row] = await db.select({ left: count() }).from(recoveryCodes).where(eq(recoveryCodes.userId, userId))
  return row?.left ?? 0
}

/** Consumes a recovery code, and mails its owner how many are left; of several concurrent calls one succeeds. */
export async function useRecoveryCode(deps: Deps, userId: string, code: string): Promise<boolean> {
  const { db, now } = deps
  const left = await db.transaction(async (tx) => {
    const used = await tx
      .delete(recoveryCodes)
      .where(and(eq(recoveryCodes.codeHash, hashCode(userId, code)), eq(recoveryCodes.userId, userId)))
      .returning({ userId: recoveryCodes.userId })
    if (used.length === 0) return undefined
    await recordAudit(tx, now(), {
      actor: `user:${userId}`,
      action: 'user.recovery_code_used',
      subject: `user:${userId}`,
    })
    return countRecoveryCodes({ db: tx }, userId)
  })
  if (left === undefined) return false
  notifySecurityChange(deps, userId, { kind: 'recovery-code-used', left })
  return true
}
