import { NotFound } from '@platform/errors/api-error'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import { sessions } from '../sessions/table.ts'

/** Deletes a user and everything that belongs to them; the id is never reused. Throws NotFound. */
export async function deleteUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  await db.transaction(async (tx) => {
    // Sessions first: an approval in progress holds one of them and waits for the user's row.
    await tx.delete(sessions).where(eq(sessions.userId, userId))
    const deleted = await tx.delete(users).where(eq(users.id, userId)).returning({ id: users.id })
    if (deleted.length === 0) throw new NotFound('User')
    await recordAudit(tx, now(), { actor, action: 'user.deleted', subject: `user:${userId}` })
  })
}
