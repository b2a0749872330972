import { one } from '@platform/runtime/database'
import { recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import { type AccountDeps, createUser, findUserByEmail, type NewUser, type User } from '../accounts/accounts.ts'
import { checkedPassword } from '../accounts/passwords.ts'
import { users } from '../accounts/table.ts'
import { endAllAccess } from './end-access.ts'

/**
 * Creates the user of this email address, or updates the existing one to match the description; safe to repeat. A different
 * password ends every session and grant of the user.
 */
export async function ensureUser(deps: AccountDeps, wanted: NewUser): Promise<{ user: User; isNew: boolean }> {
  const { db, now, passwords } = deps
  const before = await findUserByEmail(deps, wanted.email)
  if (!before) return { user: await createUser(deps, wanted), isNew: true }
  const { password } = wanted
  const isOtherPassword =
    password !== undefined &&
    !(await passwords.verify(before.passwordHash ?? undefined, checkedPassword(password), 'first'))
  const givenName = wanted.givenName ?? before.givenName
  const familyName = wanted.familyName ?? before.familyName
  const emailVerified = wanted.emailVerified ?? before.emailVerified
  const isSame =
    givenName === before.givenName && familyName === before.familyName && emailVerified === before.emailVerified
  if (isSame && !isOtherPassword) return { user: before, isNew: false }
  const passwordHash = isOtherPassword ? await passwords.hash(password) : before.passwordHash
  const time = now()
  const user = await db.transaction(async (tx) => {
    const changed = await tx
      .update(users)
      .set({ givenName, familyName, emailVerified, passwordHash, updatedAt: time })
      .where(eq(users.id, before.id))
      .returning()
    if (isOtherPassword) await endAllAccess(tx, time, before.id)
    await recordAudit(tx, time, {
      actor: 'operator',
      action: isOtherPassword ? 'user.password_set' : 'user.changed',
      subject: `user:${before.id}`,
    })
    return one(changed)
  })
  return { user, isNew: false }
}
