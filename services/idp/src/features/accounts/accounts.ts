import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { preparedOnce } from '@platform/runtime/prepared-once'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { type AuditActor, recordAudit } from '../audit/audit.ts'
import { endAllAccess } from '../sessions/sessions.ts'
import { sessions } from '../sessions/table.ts'
import { checkedPassword } from './passwords.ts'
import { productWithdrawals, users } from './table.ts'

export type User = typeof users.$inferSelect

interface NewUser {
  email: string
  /** Without one the user cannot sign in until a password is set. */
  password?: string | undefined
  givenName?: string | undefined
  familyName?: string | undefined
  /** The operator vouches for the address unless told otherwise. */
  emailVerified?: boolean | undefined
}

type AccountDeps = Pick<Deps, 'db' | 'now' | 'passwords'>

function checkedEmail(email: string): string {
  const trimmed = email.trim().normalize('NFC')
  // eslint-disable-next-line no-control-regex
  if (!/^[^\s@\x00-\x1f]{1,64}@[^\s@\x00-\x1f]{1,255}$/.test(trimmed))
    throw new BadRequest('This is not an email address')
  return trimmed
}

/** Case does not tell addresses apart. */
const userByEmail = preparedOnce((db) =>
  db
    .select()
    .from(users)
    .where(sql`lower(${users.email}) = lower(${sql.placeholder('email')})`)
    .prepare('user_by_email'),
)

/** The user of an email address, whatever its case. */
export async function findUserByEmail({ db }: Pick<Deps, 'db'>, email: string): Promise<User | undefined> {
  const [user] = await userByEmail(db).execute({ email: email.trim().normalize('NFC') })
  return user
}

/** Makes a user. Throws Conflict for an address that is taken, BadRequest for one that is none or a password too short. */
export async function createUser(deps: AccountDeps, user: NewUser, actor: AuditActor = 'operator'): Promise<User> {
  const { db, now, passwords } = deps
  const email = checkedEmail(user.email)
  const passwordHash = user.password === undefined ? null : await passwords.hash(checkedPassword(user.password))
  const at = now()
  try {
    return await db.transaction(async (tx) => {
      const made = await tx
        .insert(users)
        .values({
          id: newId(),
          email,
          emailVerified: user.emailVerified ?? true,
          passwordHash,
          givenName: user.givenName ?? null,
          familyName: user.familyName ?? null,
          createdAt: at,
          updatedAt: at,
        })
        .returning()
      const row = one(made)
      await recordAudit(tx, at, { actor, action: 'user.created', subject: `user:${row.id}` })
      return row
    })
  } catch (error) {
    if (isUniqueViolation(error, 'users_email')) throw new Conflict(`A user with the email ${email} exists already`)
    throw error
  }
}

/**
 * Makes the user of this email address as described, or brings the one there is into line; safe to repeat. Another
 * password ends every session and grant of the user.
 */
export async function ensureUser(deps: AccountDeps, wanted: NewUser): Promise<{ user: User; isNew: boolean }> {
  const { db, now, passwords } = deps
  const before = await findUserByEmail(deps, wanted.email)
  if (!before) return { user: await createUser(deps, wanted), isNew: true }
  const { password } = wanted
  const isOtherPassword =
    password !== undefined && !(await passwords.verify(before.passwordHash ?? undefined, checkedPassword(password)))
  const givenName = wanted.givenName ?? before.givenName
  const familyName = wanted.familyName ?? before.familyName
  const emailVerified = wanted.emailVerified ?? before.emailVerified
  const isSame =
    givenName === before.givenName && familyName === before.familyName && emailVerified === before.emailVerified
  if (isSame && !isOtherPassword) return { user: before, isNew: false }
  const passwordHash = isOtherPassword ? await passwords.hash(password) : before.passwordHash
  const at = now()
  const user = await db.transaction(async (tx) => {
    const changed = await tx
      .update(users)
      .set({ givenName, familyName, emailVerified, passwordHash, updatedAt: at })
      .where(eq(users.id, before.id))
      .returning()
    if (isOtherPassword) await endAllAccess(tx, at, before.id)
    await recordAudit(tx, at, {
      actor: 'operator',
      action: isOtherPassword ? 'user.password_set' : 'user.changed',
      subject: `user:${before.id}`,
    })
    return one(changed)
  })
  return { user, isNew: false }
}

/**
 * Suspends a user: every session, pending code and grant ends with it, and no token is issued from here on (B §5).
 * Throws NotFound. Safe to repeat.
 */
export async function suspendUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    // First the user's row: a sign-in that is under way waits for it, or is waited for.
    const [user] = await tx
      .select({ suspendedAt: users.suspendedAt })
      .from(users)
      .where(eq(users.id, userId))
      .for('no key update')
    if (!user) throw new NotFound('User')
    if (user.suspendedAt === null) {
      await tx.update(users).set({ suspendedAt: at, updatedAt: at }).where(eq(users.id, userId))
      await recordAudit(tx, at, { actor, action: 'user.suspended', subject: `user:${userId}` })
    }
    await endAllAccess(tx, at, userId)
  })
}

/** Lets a suspended user in again; what ended stays ended. Throws NotFound. Safe to repeat. */
export async function restoreUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    const [user] = await tx.select({ id: users.id }).from(users).where(eq(users.id, userId))
    if (!user) throw new NotFound('User')
    const restored = await tx
      .update(users)
      .set({ suspendedAt: null, updatedAt: at })
      .where(and(eq(users.id, userId), isNotNull(users.suspendedAt)))
      .returning({ id: users.id })
    if (restored.length > 0) await recordAudit(tx, at, { actor, action: 'user.restored', subject: `user:${userId}` })
  })
}

/** Deletes a user and everything of theirs; the id is never given out again. Throws NotFound. */
export async function deleteUser(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  userId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  await db.transaction(async (tx) => {
    // First the sessions: an approval that is under way holds one of them and waits for the user's row.
    await tx.delete(sessions).where(eq(sessions.userId, userId))
    const deleted = await tx.delete(users).where(eq(users.id, userId)).returning({ id: users.id })
    if (deleted.length === 0) throw new NotFound('User')
    await recordAudit(tx, now(), { actor, action: 'user.deleted', subject: `user:${userId}` })
  })
}

/** Takes a product from a user, or gives it back (D69). Throws NotFound for a missing user. Safe to repeat. */
export async function setProductAccess(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, product, hasAccess }: { userId: string; product: string; hasAccess: boolean },
  actor: AuditActor = 'operator',
): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    const [user] = await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('share')
    if (!user) throw new NotFound('User')
    if (hasAccess) {
      await tx
        .delete(productWithdrawals)
        .where(and(eq(productWithdrawals.userId, userId), eq(productWithdrawals.product, product)))
    } else await tx.insert(productWithdrawals).values({ userId, product, withdrawnAt: at }).onConflictDoNothing()
    await recordAudit(tx, at, {
      actor,
      action: hasAccess ? 'product.granted' : 'product.withdrawn',
      subject: `user:${userId}`,
      details: { product },
    })
  })
}
