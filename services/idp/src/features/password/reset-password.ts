import { and, eq } from 'drizzle-orm'
import { NotFound } from '@platform/errors/api-error'
import { recordAudit } from '@platform/service/audit'
import type { Deps } from '../../deps.ts'
import { endAllAccess } from '../access/end-access.ts'
import { findUserByEmail, storedEmail, type User } from '../accounts/accounts.ts'
import { users } from '../accounts/table.ts'
import { admitInWindow, attemptKey } from '../attempts/attempts.ts'
import { findLinkOwner, makeLink, useLink } from '../links/one-time-links.ts'
import type { Mailer } from '@platform/mail/mailer'
import { notifySecurityChange } from '../mail/notify-security-change.ts'
import { checkedNewPassword } from './new-password.ts'

const HOUR_MS = 3_600_000
const LETTERS_IN_HOUR = 5
const ASKED_BY_NETWORK_MAX = 30

/**
 * Mails a link to the user of this email address, if there is one. Everything that depends on that happens after the answer,
 * so neither its words nor its timing reveal whether an account exists. An address gets at most five mails in an hour, whose
 * links keep working. Returns `paused` only for a network that asks too often.
 */
export async function askForReset(
  deps: Deps,
  mailer: Mailer,
  { email, address }: { email: string; address: string },
): ReturnType<typeof admitInWindow> {
  const byNetwork = attemptKey('reset-password', 'network', address)
  const admission = await admitInWindow(deps, byNetwork, { max: ASKED_BY_NETWORK_MAX, windowMs: HOUR_MS })
  if (admission.kind === 'paused') return admission
  deps.afterAnswer.run('mail to reset a password', async () => {
    const byAccount = attemptKey('reset-password', 'account', storedEmail(email).toLowerCase())
    const letters = await admitInWindow(deps, byAccount, { max: LETTERS_IN_HOUR, windowMs: HOUR_MS })
    if (letters.kind === 'paused') return
    const user = await findUserByEmail(deps, email)
    if (!user || user.suspendedAt) return
    const link = await makeLink(deps.db, deps, { purpose: 'set-password', userId: user.id, mailedTo: user.email })
    await mailer.send({
      to: user.email,
      subject: 'Choose a new password',
      text: `Hello,

somebody, hopefully you, forgot the password of ${user.email}. Choose a new one here:

${link}

The link works once, and for 30 minutes. If you did not ask for it, do nothing: your password stays as it is.
`,
    })
  })
  return admission
}

/** Makes a link with which a user sets a password, for the operator to hand over. Throws NotFound. */
export async function makeResetLink(deps: Pick<Deps, 'db' | 'now' | 'accountUrl'>, userId: string): Promise<string> {
  const time = deps.now()
  return deps.db.transaction(async (tx) => {
    const [user] = await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('share')
    if (!user) throw new NotFound('User')
    const link = await makeLink(tx, deps, { purpose: 'set-password', userId, mailedTo: null })
    await recordAudit(tx, time, { actor: 'operator', action: 'user.reset_link_made', subject: `user:${userId}` })
    return link
  })
}

/**
 * Gives the owner of a link a new password. The link is consumed, and every session, pending code and grant of the user ends.
 * Returns the updated account, or undefined if the link is unknown, used or expired.
 *
 * Throws BadRequest if the password breaks the rules, which leaves the link unused, and Unavailable if too many wait for a
 * hash.
 */
export async function resetPassword(deps: Deps, token: string, newPassword: string): Promise<User | undefined> {
  const { db, now, passwords } = deps
  // Only holders of a link can make us hash.
  const owner = await findLinkOwner(deps, 'set-password', token)
  if (!owner) return undefined
  const passwordHash = await passwords.hash(await checkedNewPassword(deps, newPassword, owner))
  const time = now()
  const account = await db.transaction(async (tx) => {
    const used = await useLink(tx, time, 'set-password', token)
    if (!used) return undefined
    const { userId, mailedTo } = used
    // The letter may have gone out while the operator corrected the address, which ends links (updateUser).
    const isStillTheirs = mailedTo === null ? undefined : eq(users.email, mailedTo)
    const [changed] = await tx
      .update(users)
      .set({ passwordHash, updatedAt: time })
      .where(and(eq(users.id, userId), isStillTheirs))
      .returning()
    if (!changed) return undefined
    await endAllAccess(tx, time, userId)
    await recordAudit(tx, time, { actor: `user:${userId}`, action: 'user.password_reset', subject: `user:${userId}` })
    return changed
  })
  if (account) notifySecurityChange(deps, account.id, { kind: 'password-changed' })
  return account
}
