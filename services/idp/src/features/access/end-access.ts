import type { Db } from '@platform/runtime/database'
import { recordAudit } from '@platform/service/audit'
import { and, eq, isNull, ne } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import { authorizationCodes, deviceAuthorizations } from '../grants/table.ts'
import { revokeFamiliesOf, type UserGrants } from '../refresh/families.ts'
import { sessions } from '../sessions/table.ts'

/** Ends a user's sessions and the grants of clients. Part of the transaction of the change that requires it. */
export async function endAllAccess(tx: Pick<Db, 'update' | 'delete'>, time: Date, userId: string): Promise<void> {
  await tx.delete(sessions).where(eq(sessions.userId, userId))
  await endGrants(tx, time, { userId })
}

/**
 * Ends what a user granted to clients: pending codes, device approvals, refresh families. Part of the transaction of the
 * change that requires it. Families come last: redeeming a code holds the code's row, so a family founded meanwhile is seen
 * by the later statement. Returns the number of grants ended.
 */
export async function endGrants(tx: Pick<Db, 'update'>, time: Date, grants: UserGrants): Promise<number> {
  const { userId, clientId, sid } = grants
  const codes = await tx
    .update(authorizationCodes)
    .set({ consumedAt: time })
    .where(
      and(
        eq(authorizationCodes.userId, userId),
        clientId === undefined ? undefined : eq(authorizationCodes.clientId, clientId),
        sid === undefined ? undefined : eq(authorizationCodes.sid, sid),
        isNull(authorizationCodes.consumedAt),
      ),
    )
    .returning({ clientId: authorizationCodes.clientId })
  const devices = await tx
    .update(deviceAuthorizations)
    .set({ consumedAt: time })
    .where(
      and(
        eq(deviceAuthorizations.userId, userId),
        clientId === undefined ? undefined : eq(deviceAuthorizations.clientId, clientId),
        sid === undefined ? undefined : eq(deviceAuthorizations.sid, sid),
        isNull(deviceAuthorizations.consumedAt),
      ),
    )
    .returning({ clientId: deviceAuthorizations.clientId })
  return codes.length + devices.length + (await revokeFamiliesOf(tx, time, grants))
}

/**
 * Ends one session of a user from another, together with the grants made in it: the machine may be in the wrong hands, and so
 * may the tokens of its programs. Signing out in a browser leaves grants alone (endSession). Safe to repeat.
 */
export async function endSessionOf(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    // The user's row first: a session that continues under another cookie has a new row, which this would not see.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
    // Then the session's row: a code or an approval in progress waits for it, or is waited for.
    const ended = await tx
      .delete(sessions)
      .where(and(eq(sessions.id, sessionId), eq(sessions.userId, userId)))
      .returning({ id: sessions.id })
    if (ended.length === 0) return
    const grants = await endGrants(tx, time, { userId, sid: sessionId })
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'session.ended',
      subject: `user:${userId}`,
      details: { sessionId, grants },
    })
  })
}

/**
 * Ends every session of a user but one, and the grants made in each of them. Grants of the remaining session, and of sessions
 * that had already ended, stay. Safe to repeat.
 */
export async function endOtherSessions(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    // As in endSessionOf, for the same reasons.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
    const ended = await tx
      .delete(sessions)
      .where(and(eq(sessions.userId, userId), ne(sessions.id, sessionId)))
      .returning({ id: sessions.id })
    for (const { id } of ended) {
      const grants = await endGrants(tx, time, { userId, sid: id })
      await recordAudit(tx, time, {
        actor: `user:${userId}`,
        action: 'session.ended',
        subject: `user:${userId}`,
        details: { sessionId: id, grants },
      })
    }
  })
}

/** Ends a user's sessions and the grants of clients, at the user's own request. Consents stay. */
export async function signOutEverywhere({ db, now }: Pick<Deps, 'db' | 'now'>, userId: string): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    // The user's row first: a sign-in in progress waits for it, or is waited for.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
    // Browsers known to the account are forgotten (decision 16).
    await tx.update(users).set({ updatedAt: time }).where(eq(users.id, userId))
    await endAllAccess(tx, time, userId)
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'user.signed_out_everywhere',
      subject: `user:${userId}`,
    })
  })
}
