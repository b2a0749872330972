import { resealRows } from '@platform/runtime/reseal-rows'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, eq, lt } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { users } from '../accounts/table.ts'
import { admitAttempt, attemptKey, forgetAttempts } from '../attempts/attempts.ts'
import { recordRefusal } from '../attempts/record-refusal.ts'
import { notifySecurityChange } from '../mail/notify-security-change.ts'
import { readRecoveryCode, replaceRecoveryCodes, useRecoveryCode } from './recovery-codes.ts'
import { authenticators, recoveryCodes } from './table.ts'
import { findTotpStep } from './totp.ts'

/** Guesses count against the account: someone who makes them already has its password. Never a lockout (identity.md). */
const backOff = { free: 5, pauseMaxSeconds: 900 }

const contextOf = (userId: string): string => `authenticator:${userId}`

/** When the user added an authenticator app; undefined if there is none. */
export async function findAuthenticator(
  { db }: Pick<Deps, 'db'>,
  userId: string,
): Promise<{ createdAt: Date } | undefined> {
  const [row] = await db
    .select({ createdAt: authenticators.createdAt })
    .from(authenticators)
    .where(eq(authenticators.userId, userId))
  return row
}

/**
 * Adds an authenticator app, once a code shows that it works, and returns ten recovery codes, which are stored only as
 * hashes. The code is consumed, so it cannot be used to sign in as well. Of several concurrent calls one wins.
 */
export async function addAuthenticator(
  deps: Deps,
  { userId, secret, code }: { userId: string; secret: Buffer; code: string },
): Promise<{ kind: 'added'; recoveryCodes: string[] } | { kind: 'wrong' } | { kind: 'present' }> {
  const { db, now, sealer } = deps
  const at = now()
  const step = await findTotpStep(secret, code, at)
  if (step === undefined) return { kind: 'wrong' }
  const codes = await db.transaction(async (tx) => {
    const added = await tx
      .insert(authenticators)
      .values({ userId, ...sealer.seal(secret, contextOf(userId)), lastStep: step, createdAt: at })
      .onConflictDoNothing()
      .returning({ userId: authenticators.userId })
    if (added.length === 0) return undefined
    const made = await replaceRecoveryCodes(tx, at, userId)
    await recordAudit(tx, at, {
      actor: `user:${userId}`,
      action: 'user.authenticator_added',
      subject: `user:${userId}`,
    })
    return made
  })
  if (!codes) return { kind: 'present' }
  notifySecurityChange(deps, userId, { kind: 'authenticator-added' })
  return { kind: 'added', recoveryCodes: codes }
}

/** True if the code is the app's and its time step is unused; consumes the step (RFC 6238 §5.2). */
async function takeTotpCode(
  { db, now, sealer }: Pick<Deps, 'db' | 'now' | 'sealer'>,
  userId: string,
  code: string,
): Promise<boolean> {
  const [row] = await db.select().from(authenticators).where(eq(authenticators.userId, userId))
  if (!row) return false
  const step = await findTotpStep(sealer.open(row, contextOf(userId)), code, now())
  if (step === undefined) return false
  const taken = await db
    .update(authenticators)
    .set({ lastStep: step })
    .where(
      and(
        eq(authenticators.userId, userId),
        eq(authenticators.ciphertext, row.ciphertext),
        lt(authenticators.lastStep, step),
      ),
    )
    .returning({ userId: authenticators.userId })
  return taken.length > 0
}

/** The result of checking a code. waitSeconds: until the next attempt is accepted. */
export type CheckedCode =
  | { kind: 'right'; way: 'code' | 'recovery-code' }
  | { kind: 'wrong' }
  | { kind: 'paused'; waitSeconds: number }

/**
 * Checks a code of the user's app, or a recovery code, and consumes it. Guesses are slowed down by account, and recorded
 * (recordRefusal).
 */
export async function checkSecondFactor(
  deps: Deps,
  userId: string,
  text: string,
  source: Source,
): Promise<CheckedCode> {
  const key = attemptKey('second-factor', 'account', userId)
  const admission = await admitAttempt(deps, [{ key, backOff }])
  if (admission.kind === 'paused') return { kind: 'paused', waitSeconds: admission.waitSeconds }
  const code = text.replaceAll(/\s/g, '')
  const recoveryCode = readRecoveryCode(text)
  const way = /^\d{6}$/.test(code) ? 'code' : 'recovery-code'
  const isRight =
    way === 'code'
      ? await takeTotpCode(deps, userId, code)
      : recoveryCode !== undefined && (await useRecoveryCode(deps, userId, recoveryCode))
  if (!isRight) {
    const [guesses = 1] = admission.counts
    recordRefusal(deps, { userId, action: 'user.second_factor_refused', guesses, source })
    return { kind: 'wrong' }
  }
  await forgetAttempts(deps, [key])
  return { kind: 'right', way }
}

/** Replaces the recovery codes with ten new ones; undefined if the user has no app that they would stand in for. */
export async function renewRecoveryCodes(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
): Promise<string[] | undefined> {
  const at = now()
  return db.transaction(async (tx) => {
    const [row] = await tx
      .select({ userId: authenticators.userId })
      .from(authenticators)
      .where(eq(authenticators.userId, userId))
      .for('update')
    if (!row) return undefined
    const codes = await replaceRecoveryCodes(tx, at, userId)
    await recordAudit(tx, at, {
      actor: `user:${userId}`,
      action: 'user.recovery_codes_renewed',
      subject: `user:${userId}`,
    })
    return codes
  })
}

/** Removes the app and the recovery codes: the password alone signs in again. Safe to repeat. */
export async function removeAuthenticator(deps: Deps, userId: string, actor: AuditActor): Promise<void> {
  const { db, now } = deps
  const isRemoved = await db.transaction(async (tx) => {
    // The user's row first, as everywhere: it waits for an app that is being added.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('update')
    const removed = await tx
      .delete(authenticators)
      .where(eq(authenticators.userId, userId))
      .returning({ userId: authenticators.userId })
    if (removed.length === 0) return false
    await tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId))
    await recordAudit(tx, now(), { actor, action: 'user.authenticator_removed', subject: `user:${userId}` })
    return true
  })
  if (isRemoved) notifySecurityChange(deps, userId, { kind: 'authenticator-removed' })
}

/** Reseals every secret that is not under the current master key. Returns their number. Safe to repeat. */
export const resealAuthenticators = (deps: Pick<Deps, 'db' | 'sealer'>): Promise<number> =>
  resealRows(
    deps,
    { id: authenticators.userId, ciphertext: authenticators.ciphertext, kekId: authenticators.kekId },
    contextOf,
  )
