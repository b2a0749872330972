import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, eq, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { checkedPassword } from './passwords.ts'
import { productWithdrawals, users } from './table.ts'

export type User = typeof users.$inferSelect

export interface NewUser {
  email: string
  /** Without one the user cannot sign in until a password is set. */
  password?: string | undefined
  givenName?: string | undefined
  familyName?: string | undefined
  /** The operator vouches for the address unless this is false. */
  emailVerified?: boolean | undefined
}

export type AccountDeps = Pick<Deps, 'db' | 'now' | 'passwords'>

function checkedEmail(email: string): string {
  const trimmed = email.trim().normalize('NFC')
  // eslint-disable-next-line no-control-regex
  if (!/^[^\s@\x00-\x1f]{1,64}@[^\s@\x00-\x1f]{1,255}$/.test(trimmed))
    throw new BadRequest('This is not an email address')
  return trimmed
}

/** Addresses that differ only in case are the same. */
const userByEmail = lazyPrepared((db) =>
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

/** Creates a user. Throws Conflict if the address is taken, BadRequest if it is invalid or the password too short. */
export async function createUser(deps: AccountDeps, user: NewUser, actor: AuditActor = 'operator'): Promise<User> {
  const { db, now, passwords } = deps
  const email = checkedEmail(user.email)
  const passwordHash = user.password === undefined ? null : await passwords.hash(checkedPassword(user.password))
  const time = now()
  return db.transaction(async (tx) => {
    const [row] = await tx
      .insert(users)
      .values({
        id: newId(),
        email,
        emailVerified: user.emailVerified ?? true,
        passwordHash,
        givenName: user.givenName ?? null,
        familyName: user.familyName ?? null,
        createdAt: time,
        updatedAt: time,
      })
      // Postgres would log a unique violation with the address.
      .onConflictDoNothing()
      .returning()
    if (!row) throw new Conflict(`A user with the email ${email} exists already`)
    await recordAudit(tx, time, { actor, action: 'user.created', subject: `user:${row.id}` })
    return row
  })
}

/** Withdraws a product from a user, or restores it (D69). Throws NotFound for a missing user. Safe to repeat. */
export async function setProductAccess(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, product, hasAccess }: { userId: string; product: string; hasAccess: boolean },
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const [user] = await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('share')
    if (!user) throw new NotFound('User')
    if (hasAccess) {
      await tx
        .delete(productWithdrawals)
        .where(and(eq(productWithdrawals.userId, userId), eq(productWithdrawals.product, product)))
    } else await tx.insert(productWithdrawals).values({ userId, product, withdrawnAt: time }).onConflictDoNothing()
    await recordAudit(tx, time, {
      actor,
      action: hasAccess ? 'product.granted' : 'product.withdrawn',
      subject: `user:${userId}`,
      details: { product },
    })
  })
}
