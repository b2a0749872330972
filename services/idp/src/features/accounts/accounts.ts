import { domainToUnicode } from 'node:url'
import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { asciiDomain, readMailAddress } from '@platform/mail/mail-address'
import { newId } from '@platform/runtime/new-id'
import type { Db } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, asc, eq, sql } from 'drizzle-orm'
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

/** The address with another spelling of its domain; as it is if there is none. */
function withDomain(email: string, spell: (domain: string) => string | undefined): string {
  const at = email.lastIndexOf('@')
  const domain = at < 0 ? undefined : spell(email.slice(at + 1))
  return domain === undefined ? email : `${email.slice(0, at + 1)}${domain}`
}

/**
 * An address as it is stored: a domain of another script in ASCII, as browsers and mail servers write it, so that a mailbox has one
 * account. Attempts at an account are counted by this, in lower case, since it is what is looked up.
 */
export const storedEmail = (email: string): string =>
  withDomain(email.trim().normalize('NFC'), (domain) =>
    /^[\x20-\x7e]*$/.test(domain) ? undefined : asciiDomain(domain),
  )

/** The same as rows of earlier releases may have it: with the domain in its own script. */
const unicodeEmail = (stored: string): string =>
  withDomain(stored, (domain) =>
    /(?:^|\.)xn--/i.test(domain) && asciiDomain(domain) ? domainToUnicode(domain) : undefined,
  )

function checkedEmail(email: string): string {
  const trimmed = storedEmail(email)
  // eslint-disable-next-line no-control-regex
  if (!/^[^\s@\x00-\x1f]{1,64}@[^\s@\x00-\x1f]{1,255}$/.test(trimmed))
    throw new BadRequest('This is not an email address')
  return trimmed
}

/**
 * Reads an address that the operator typed, spelled as readMailAddress spells it. An address that people could not type themselves
 * stays as it is. Throws BadRequest if the text is no address.
 */
export const readOperatorsAddress = (email: string): string => readMailAddress(email) ?? checkedEmail(email)

/** Addresses that differ only in case are the same. */
const userByEmail = lazyPrepared((db) =>
  db
    .select()
    .from(users)
    .where(
      sql`lower(${users.email}) in (lower(${sql.placeholder('email')}), lower(${sql.placeholder('unicodeEmail')}))`,
    )
    .prepare('user_by_email'),
)

/**
 * The user of an email address, whatever its case and however its domain is spelled: rows of earlier releases may have it in
 * Unicode.
 */
export async function findUserByEmail({ db }: Pick<Deps, 'db'>, email: string): Promise<User | undefined> {
  const stored = storedEmail(email)
  const found = await userByEmail(db).execute({ email: stored, unicodeEmail: unicodeEmail(stored) })
  return found.find((user) => user.email.toLowerCase() === stored.toLowerCase()) ?? found[0]
}

/** A user by id. Throws NotFound. */
export async function getUser({ db }: Pick<Deps, 'db'>, userId: string): Promise<User> {
  const [user] = await db.select().from(users).where(eq(users.id, userId))
  if (!user) throw new NotFound('User')
  return user
}

/** Adds a user in the transaction that proves the address. Returns undefined if the address is taken. */
export async function insertUser(
  tx: Pick<Db, 'insert' | 'select'>,
  time: Date,
  {
    email,
    emailVerified = true,
    passwordHash,
    givenName = null,
    familyName = null,
  }: Omit<NewUser, 'password' | 'givenName' | 'familyName'> & {
    passwordHash: string | null
    givenName?: string | null | undefined
    familyName?: string | null | undefined
  },
  actor: AuditActor,
): Promise<User | undefined> {
  // The unique index knows one spelling; a row of an earlier release may have the other.
  const inUnicode = unicodeEmail(email)
  const twins =
    inUnicode === email
      ? []
      : await tx
          .select({ id: users.id })
          .from(users)
          .where(sql`lower(${users.email}) = lower(${inUnicode})`)
  if (twins.length > 0) return undefined
  const [row] = await tx
    .insert(users)
    .values({
      id: newId(),
      email,
      emailVerified,
      passwordHash,
      givenName,
      familyName,
      createdAt: time,
      updatedAt: time,
    })
    // Postgres would log a unique violation with the address.
    .onConflictDoNothing()
    .returning()
  if (row) await recordAudit(tx, time, { actor, action: 'user.created', subject: `user:${row.id}` })
  return row
}

/** Creates a user. Throws Conflict if the address is taken, BadRequest if it is invalid or the password too short. */
export async function createUser(deps: AccountDeps, user: NewUser, actor: AuditActor = 'operator'): Promise<User> {
  const { db, now, passwords } = deps
  const email = checkedEmail(user.email)
  const passwordHash = user.password === undefined ? null : await passwords.hash(checkedPassword(user.password))
  return db.transaction(async (tx) => {
    const row = await insertUser(tx, now(), { ...user, email, passwordHash }, actor)
    if (!row) throw new Conflict(`A user with the email ${email} exists already`)
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

/** The products that a user has no access to. */
export async function listWithdrawnProducts({ db }: Pick<Deps, 'db'>, userId: string): Promise<string[]> {
  const rows = await db
    .select({ product: productWithdrawals.product })
    .from(productWithdrawals)
    .where(eq(productWithdrawals.userId, userId))
    .orderBy(asc(productWithdrawals.product))
  return rows.map(({ product }) => product)
}
