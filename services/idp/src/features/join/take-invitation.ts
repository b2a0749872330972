import { readMailAddress } from '@platform/mail/mail-address'
import { recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import type { Invitation } from '../invitations/invitation.ts'

/** How long access tokens say that the invitation was taken: any client asks for one within that time (D112). */
const TOLD_MS = 7 * 86_400_000
/** What fits into a token. The oldest goes first; the API has seen it by then. */
const TOLD_MAX = 20

/** True if the account is the one that the invitation names. */
export const isInvited = (user: { email: string }, { email }: Pick<Invitation, 'email'>): boolean =>
  readMailAddress(user.email) === email

/**
 * Writes into the account that its owner takes an invitation: its next access tokens say so, and the API makes the membership
 * (D112). Returns false, changing nothing, if the account has another address by now or has not proven this one. Safe to repeat.
 *
 * `updated_at` stays: browsers that are known to the account stay known (decision 16).
 */
export async function takeInvitation(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  invitation: Invitation,
): Promise<boolean> {
  const time = now()
  return db.transaction(async (tx) => {
    const [user] = await tx
      .select({ email: users.email, emailVerified: users.emailVerified, joined: users.joined })
      .from(users)
      .where(eq(users.id, userId))
      .for('no key update')
    if (!user || !user.emailVerified || !isInvited(user, invitation)) return false
    const { id, issuer } = invitation
    const others = (user.joined ?? []).filter(
      (told) => (told.id !== id || told.issuer !== issuer) && new Date(told.until) > time,
    )
    const taken = { id, issuer, until: new Date(time.getTime() + TOLD_MS).toISOString() }
    await tx
      .update(users)
      .set({ joined: [...others, taken].slice(-TOLD_MAX) })
      .where(eq(users.id, userId))
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'invitation.taken',
      subject: `user:${userId}`,
      details: { invitationId: id, issuer },
    })
    return true
  })
}
