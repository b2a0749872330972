import { createHash, randomBytes } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { and, eq, gt } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from '../accounts/table.ts'
import { oneTimeLinks } from './table.ts'

type Purpose = (typeof oneTimeLinks.$inferSelect)['purpose']

/** How long a link of each purpose works. */
const lifetimeMs: Record<Purpose, number> = {
  'verify-email': 24 * 3_600_000,
  'set-password': 30 * 60_000,
  welcome: 7 * 24 * 3_600_000,
}

const hashToken = (token: string): Buffer => createHash('sha256').update(token).digest()

interface NewLink {
  purpose: Purpose
  userId: string
  /** Null if the link is shown to the operator instead. */
  mailedTo: string | null
  /** How long it works, if not as long as others of its purpose. */
  lifetime?: number | undefined
}

/**
 * Makes a link: `{account_url}/<purpose>?token=…`. Returns it; only its hash is stored. Earlier links work until one of them
 * is used, so that asking again does not break the link that is already in a mailbox.
 */
export async function makeLink(
  tx: Pick<Db, 'insert'>,
  { accountUrl, now }: Pick<Deps, 'accountUrl' | 'now'>,
  { purpose, userId, mailedTo, lifetime = lifetimeMs[purpose] }: NewLink,
): Promise<string> {
  const token = randomBytes(32).toString('base64url')
  const time = now()
  await tx.insert(oneTimeLinks).values({
    tokenHash: hashToken(token),
    purpose,
    userId,
    mailedTo,
    createdAt: time,
    expiresAt: new Date(time.getTime() + lifetime),
  })
  return `${accountUrl}/${purpose}?token=${token}`
}

const isLive = (purpose: Purpose, token: string, time: Date) =>
  and(eq(oneTimeLinks.tokenHash, hashToken(token)), eq(oneTimeLinks.purpose, purpose), gt(oneTimeLinks.expiresAt, time))

/** The owner of a working link. This does not use it up: mail scanners open links first. */
export async function findLinkOwner(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  purpose: Purpose,
  token: string,
): Promise<{ id: string; email: string; givenName: string | null; familyName: string | null } | undefined> {
  const [owner] = await db
    .select({ id: users.id, email: users.email, givenName: users.givenName, familyName: users.familyName })
    .from(oneTimeLinks)
    .innerJoin(users, eq(users.id, oneTimeLinks.userId))
    .where(isLive(purpose, token, now()))
  return owner
}

/**
 * Consumes a link, and all others of its kind that the user has: of several concurrent calls one gets it. Part of the
 * transaction that does what the link is for.
 */
export async function useLink(
  tx: Pick<Db, 'select' | 'delete'>,
  time: Date,
  purpose: Purpose,
  token: string,
): Promise<{ userId: string; mailedTo: string | null } | undefined> {
  // The user's row first: two links of one user would otherwise wait for each other.
  await tx
    .select({ id: users.id })
    .from(oneTimeLinks)
    .innerJoin(users, eq(users.id, oneTimeLinks.userId))
    .where(isLive(purpose, token, time))
    .for('no key update', { of: users })
  const [used] = await tx
    .delete(oneTimeLinks)
    .where(isLive(purpose, token, time))
    .returning({ userId: oneTimeLinks.userId, mailedTo: oneTimeLinks.mailedTo })
  if (used)
    await tx.delete(oneTimeLinks).where(and(eq(oneTimeLinks.userId, used.userId), eq(oneTimeLinks.purpose, purpose)))
  return used
}
