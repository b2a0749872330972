import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { users } from '../accounts/table.ts'

/** A change of the ways into an account, or an unusual sign-in. */
type SecurityChange =
  | {
      kind: 'password-changed' | 'authenticator-added' | 'authenticator-removed' | 'passkey-added' | 'passkey-removed'
    }
  | { kind: 'new-browser'; source: Source }
  /** left: the number of unused codes. */
  | { kind: 'recovery-code-used'; left: number }

const subjects: Record<SecurityChange['kind'], string> = {
  'password-changed': 'Your password was changed',
  'authenticator-added': 'An authenticator app was added to your account',
  'authenticator-removed': 'The authenticator app was removed from your account',
  'passkey-added': 'A passkey was added to your account',
  'passkey-removed': 'A passkey was removed from your account',
  'new-browser': 'A new browser signed in to your account',
  'recovery-code-used': 'A recovery code of your account was used',
}

/** Further facts for the owner, followed by an empty line; empty if there are none. */
function factsOf(change: SecurityChange): string {
  switch (change.kind) {
    case 'new-browser': {
      const { browser, address } = change.source
      // A User-Agent can be anything, and mail programs turn names with dots into links.
      return `Browser: ${browser.replaceAll('.', ' ')}
Address: ${address}

A browser that you used before counts as new once your account has changed since, such as your password.

`
    }
    case 'recovery-code-used': {
      const left =
        change.left === 0 ? 'No recovery code is' : `${change.left} recovery code${change.left === 1 ? ' is' : 's are'}`
      return `${left} left. Once your app is at hand again, you can make new ones.

`
    }
    default:
      return ''
  }
}

/**
 * Mails the owner that a way into the account has changed, or that someone signed in by an unusual one, so that an intruder
 * does not go unnoticed. Runs after the commit and after the answer; does nothing without a mailer.
 */
export function notifySecurityChange(
  { db, mailer, afterAnswer, accountUrl, now }: Pick<Deps, 'db' | 'mailer' | 'afterAnswer' | 'accountUrl' | 'now'>,
  userId: string,
  change: SecurityChange,
): void {
  if (!mailer) return
  const time = now()
  const subject = subjects[change.kind]
  afterAnswer.run('mail about a change', async () => {
    const [user] = await db.select({ email: users.email }).from(users).where(eq(users.id, userId))
    if (!user) return
    await mailer.send({
      to: user.email,
      subject,
      text: `Hello,

${subject}: ${user.email}, ${time.toISOString().slice(0, 16).replace('T', ' ')} UTC.

${factsOf(change)}If it was you, there is nothing to do. If not, choose a new password now, which ends every session and signs out all
applications, and look through your passkeys and your authenticator app with its recovery codes:

${accountUrl}/forgot-password
`,
    })
  })
}
