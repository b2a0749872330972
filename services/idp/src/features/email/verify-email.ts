import { recordAudit } from '@platform/service/audit'
import { and, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import { admitInWindow, attemptKey } from '../attempts/attempts.ts'
import type { Mailer } from '@platform/mail/mailer'
import { makeLink, useLink } from '../links/one-time-links.ts'

const HOUR_MS = 3_600_000
const LINKS_IN_HOUR = 5

/** Mails a link that confirms the user's address. Returns `paused` beyond five in an hour. */
export async function mailVerification(
  deps: Deps,
  mailer: Mailer,
  user: { id: string; email: string },
): ReturnType<typeof admitInWindow> {
  const { afterAnswer, db } = deps
  const byAccount = attemptKey('verify-email', 'account', user.id)
  const admission = await admitInWindow(deps, byAccount, { max: LINKS_IN_HOUR, windowMs: HOUR_MS })
  if (admission.kind === 'paused') return admission
  const link = await makeLink(db, deps, { purpose: 'verify-email', userId: user.id, mailedTo: user.email })
  afterAnswer.run('mail to confirm an address', () =>
    mailer.send({
      to: user.email,
      subject: 'Confirm your email address',
      text: `Hello,

open this page to confirm that ${user.email} is your address:

${link}

The link works once, and for 24 hours. If you did not ask for it, do nothing.
`,
    }),
  )
  return admission
}

/**
 * Confirms the address that a link was mailed to, if it is still the user's. Returns false if the link is unknown, used or
 * expired.
 */
export async function verifyEmail({ db, now }: Pick<Deps, 'db' | 'now'>, token: string): Promise<boolean> {
  const time = now()
  return db.transaction(async (tx) => {
    const used = await useLink(tx, time, 'verify-email', token)
    if (!used || used.mailedTo === null) return false
    const { userId, mailedTo } = used
    const [user] = await tx
      .select({ emailVerified: users.emailVerified })
      .from(users)
      .where(and(eq(users.id, userId), eq(users.email, mailedTo)))
      .for('update')
    if (!user) return false
    if (user.emailVerified) return true
    await tx.update(users).set({ emailVerified: true, updatedAt: time }).where(eq(users.id, userId))
    await recordAudit(tx, time, { actor: `user:${userId}`, action: 'user.email_verified', subject: `user:${userId}` })
    return true
  })
}
