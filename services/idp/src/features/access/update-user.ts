import { Conflict, NotFound } from '@platform/errors/api-error'
import { isUniqueViolation, one } from '@platform/runtime/database'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { findUserByEmail, readOperatorsAddress, type User } from '../accounts/accounts.ts'
import { users } from '../accounts/table.ts'
import { oneTimeLinks } from '../links/table.ts'

/** What changes of a user; undefined fields stay, empty names are cleared. */
interface Changes {
  email?: string | undefined
  /** With a new address true if absent: the operator vouches for it. */
  emailVerified?: boolean | undefined
  givenName?: string | undefined
  familyName?: string | undefined
}

const nameOr = (wanted: string | undefined, before: string | null): string | null =>
  wanted === undefined ? before : wanted.trim() || null

const taken = (email: string): Conflict => new Conflict(`A user with the email ${email} exists already`)

/**
 * Changes a user's address or names. With the address every link that the user was sent, or handed, stops working: it may be in
 * somebody else's mailbox. Safe to repeat.
 *
 * Throws NotFound, BadRequest for a malformed address, Conflict for one that another user has.
 */
export async function updateUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, changes }: { userId: string; changes: Changes },
  actor: AuditActor = 'operator',
): Promise<User> {
  const wanted = changes.email === undefined ? undefined : readOperatorsAddress(changes.email)
  // Looked up first: Postgres would log a unique violation with the address.
  const holder = wanted === undefined ? undefined : await findUserByEmail({ db }, wanted)
  if (wanted !== undefined && holder && holder.id !== userId) throw taken(wanted)
  const time = now()
  const changing = db.transaction(async (tx) => {
    const [before] = await tx.select().from(users).where(eq(users.id, userId)).for('no key update')
    if (!before) throw new NotFound('User')
    const email = wanted ?? before.email
    const isOtherAddress = email !== before.email
    const emailVerified = changes.emailVerified ?? (isOtherAddress || before.emailVerified)
    const givenName = nameOr(changes.givenName, before.givenName)
    const familyName = nameOr(changes.familyName, before.familyName)
    const changed = Object.entries({ email, emailVerified, givenName, familyName }).flatMap(([name, value]) =>
      value === before[name as keyof User] ? [] : [name],
    )
    if (changed.length === 0) return before
    const row = await tx
      .update(users)
      .set({ email, emailVerified, givenName, familyName, updatedAt: time })
      .where(eq(users.id, userId))
      .returning()
    if (isOtherAddress) await tx.delete(oneTimeLinks).where(eq(oneTimeLinks.userId, userId))
    await recordAudit(tx, time, { actor, action: 'user.changed', subject: `user:${userId}`, details: { changed } })
    return one(row)
  })
  return changing.catch((error: unknown) => {
    throw wanted !== undefined && isUniqueViolation(error, 'users_email') ? taken(wanted) : error
  })
}
