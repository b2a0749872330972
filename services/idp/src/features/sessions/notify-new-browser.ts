import { auditEvents } from '@platform/service/audit-table'
import { and, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { admitInWindow, attemptKey } from '../attempts/attempts.ts'
import { notifySecurityChange } from '../mail/notify-security-change.ts'

const HOUR_MS = 3_600_000
const LETTERS_IN_HOUR = 5

/**
 * True if the audit log still has the account's creation and exactly one sign-in. If retention has removed the creation, the
 * account is old enough to be notified.
 */
async function isFirstSignIn({ db }: Pick<Deps, 'db'>, userId: string): Promise<boolean> {
  const ofUser = eq(auditEvents.subject, `user:${userId}`)
  const events = (action: string, count: number) =>
    db
      .select({ id: auditEvents.id })
      .from(auditEvents)
      .where(and(ofUser, eq(auditEvents.action, action)))
      .limit(count)
  const [made, signedIn] = await Promise.all([events('user.created', 1), events('user.signed_in', 2)])
  return made.length === 1 && signedIn.length === 1
}

/**
 * Mails the owner of an account after a sign-in from an unknown browser (decision 16), once that is recorded. Skips the first
 * sign-in ever, and mails at most five times an hour: a program that signs in without cookies is new each time.
 */
export function notifyNewBrowser(deps: Deps, userId: string, source: Source): void {
  if (!deps.mailer) return
  deps.afterAnswer.run('mail about a new browser', async () => {
    if (await isFirstSignIn(deps, userId)) return
    const window = { max: LETTERS_IN_HOUR, windowMs: HOUR_MS }
    if ((await admitInWindow(deps, attemptKey('new-browser', 'account', userId), window)).kind === 'paused') return
    notifySecurityChange(deps, userId, { kind: 'new-browser', source })
  })
}
