import { NotFound } from '@platform/errors/api-error'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, eq, isNotNull } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import { endAllAccess } from './end-access.ts'

/**
 * Suspends a user: every session, pending code and grant ends, and no token is issued from then on (B §5). Throws NotFound.
 * Safe to repeat.
 */
export async function suspendUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    // The user's row first: a sign-in in progress waits for it, or is waited for.
    const [user] = await tx
      .select({ suspendedAt: users.suspendedAt })
      .from(users)
      .where(eq(users.id, userId))
      .for('no key update')
    if (!user) throw new NotFound('User')
    if (user.suspendedAt === null) {
      await tx.update(users).set({ suspendedAt: time, updatedAt: time }).where(eq(users.id, userId))
      await recordAudit(tx, time, { actor, action: 'user.suspended', subject: `user:${userId}` })
    }
    await endAllAccess(tx, time, userId)
  })
}

/** Lifts a suspension; ended sessions and grants stay ended. Throws NotFound. Safe to repeat. */
export async function restoreUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const [user] = await tx.select({ id: users.id }).from(users).where(eq(users.id, userId))
    if (!user) throw new NotFound('User')
    const restored = await tx
      .update(users)
      .set({ suspendedAt: null, updatedAt: time })
      .where(and(eq(users.id, userId), isNotNull(users.suspendedAt)))
      .returning({ id: users.id })
    if (restored.length > 0) await recordAudit(tx, time, { actor, action: 'user.restored', subject: `user:${userId}` })
  })
}
