import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'

/** What changes who can get into an account, as its owner is told. */
const changes = {
  'password-changed': 'Your password was changed',
  'authenticator-added': 'An authenticator app was added to your account',
  'authenticator-removed': 'The authenticator app was removed from your account',
  'passkey-added': 'A passkey was added to your account',
  'passkey-removed': 'A passkey was removed from your account',
}

/**
 * Mails the owner of an account that a way into it has changed, so that somebody else's doing does not go unseen. After the
 * change is committed, and after the answer; without mail nothing happens.
 */
export function tellOfChange(
  { db, mailer, afterAnswer, accountUrl, now }: Pick<Deps, 'db' | 'mailer' | 'afterAnswer' | 'accountUrl' | 'now'>,
  userId: string,
  change: keyof typeof changes,
): void {
  if (!mailer) return
  const at = now()
  afterAnswer.run('mail about a change', async () => {
    const [user] = await db.select({ email: users.email }).from(users).where(eq(users.id, userId))
    if (!user) return
    await mailer.send({
      to: user.email,
      subject: changes[change],
      text: `Hello,

${changes[change]}: ${user.email}, ${at.toISOString().slice(0, 16).replace('T', ' ')} UTC.

If it was you, there is nothing to do. If not, choose a new password now, which ends every session and signs out all
applications, and look through your passkeys and your authenticator app:

${accountUrl}/forgot-password
`,
    })
  })
}
