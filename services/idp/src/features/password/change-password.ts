import { BadRequest } from '@platform/errors/api-error'
import { recordAudit } from '@platform/service/audit'
import { and, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { endAllAccess } from '../access/end-access.ts'
import { checkPassword } from '../accounts/check-password.ts'
import { users } from '../accounts/table.ts'
import { notifySecurityChange } from '../mail/notify-security-change.ts'
import { checkedNewPassword } from './new-password.ts'

/** passwordHash: of the new password. */
type Changed = { kind: 'changed'; passwordHash: string } | { kind: 'refused' } | { kind: 'paused'; waitSeconds: number }

interface Change {
  user: { id: string; email: string; givenName: string | null; familyName: string | null }
  currentPassword: string
  newPassword: string
  /** The network and the known browser that guesses at the current password count against. */
  source: Source
  knownBrowser: string | undefined
}

/**
 * Changes a user's password, given the current one. Every session, pending code and grant of the user ends; the caller starts
 * a new session. Guesses at the current password count like those at sign-in. Of several concurrent changes one succeeds, the
 * others are refused.
 *
 * Throws BadRequest if the new password breaks the rules, Unavailable if too many wait for a hash.
 */
export async function changePassword(
  deps: Deps,
  { user, currentPassword, newPassword, source, knownBrowser }: Change,
): Promise<Changed> {
  await checkedNewPassword(deps, newPassword, user)
  if (newPassword === currentPassword) throw new BadRequest('The new password is the current one')
  const checked = await checkPassword(deps, {
    email: user.email,
    password: currentPassword,
    source,
    knownBrowser,
    isSignedIn: true,
  })
  if (checked.kind === 'paused') return checked
  if (checked.kind !== 'proven' || checked.userId !== user.id) return { kind: 'refused' }

  const passwordHash = await deps.passwords.hash(newPassword)
  const time = deps.now()
  const changed = await deps.db.transaction(async (tx): Promise<Changed> => {
    // Only replaces the hash that was verified. The row stays locked, so a sign-in in progress waits.
    const changed = await tx
      .update(users)
      .set({ passwordHash, updatedAt: time })
      .where(and(eq(users.id, user.id), eq(users.passwordHash, checked.passwordHash)))
      .returning({ id: users.id })
    if (changed.length === 0) return { kind: 'refused' }
    await endAllAccess(tx, time, user.id)
    await recordAudit(tx, time, {
      actor: `user:${user.id}`,
      action: 'user.password_changed',
      subject: `user:${user.id}`,
    })
    return { kind: 'changed', passwordHash }
  })
  if (changed.kind === 'changed') notifySecurityChange(deps, user.id, { kind: 'password-changed' })
  return changed
}
