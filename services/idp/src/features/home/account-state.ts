import { NotFound } from '@platform/errors/api-error'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, count, countDistinct, desc, eq, exists, ne, type SQLWrapper, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { users } from '../accounts/table.ts'
import { isLiveFamilyOf, usedAt } from '../applications/applications.ts'
import { authenticators, recoveryCodes } from '../authenticator/table.ts'
import { clients } from '../clients/table.ts'
import { consents } from '../consents/table.ts'
import { passkeys } from '../passkeys/table.ts'
import { refreshFamilies } from '../refresh/table.ts'
import { isLiveAt } from '../sessions/sessions.ts'
import { sessions } from '../sessions/table.ts'

/** What an account has, for its home. */
export interface AccountState {
  hasPassword: boolean
  passkeys: number
  hasAuthenticator: boolean
  recoveryCodes: number
  /** This session among them. */
  sessions: number
  /** The session besides this one that was used last. */
  otherSession: { lastSeenAt: Date; userAgent: string | null } | null
  applications: number
  /** Of those that fetch tokens on their own, the one that did so last. */
  lastApplication: { name: string; lastUsedAt: Date } | null
}

const number = (query: SQLWrapper) => sql<number>`(${query})`.mapWith(Number)

const stateOf = lazyPrepared((db) => {
  const [userId, now] = [sql.placeholder('userId'), sql.placeholder('now')]
  const isLive = and(eq(sessions.userId, userId), isLiveAt(now))
  const isLiveFamily = isLiveFamilyOf(userId, now)
  const connected = db
    .select({ clientId: consents.clientId })
    .from(consents)
    .where(eq(consents.userId, userId))
    .union(db.select({ clientId: refreshFamilies.clientId }).from(refreshFamilies).where(isLiveFamily))
    .as('connected')
  const other = db
    .select({ userAgent: sessions.userAgent, lastSeenAt: sessions.lastSeenAt })
    .from(sessions)
    .where(and(isLive, ne(sessions.id, sql.placeholder('sessionId'))))
    .orderBy(desc(sessions.lastSeenAt))
    .limit(1)
    .as('other')
  const last = db
    .select({ name: clients.name, lastUsedAt: usedAt.mapWith(refreshFamilies.createdAt).as('last_used_at') })
    .from(refreshFamilies)
    .innerJoin(clients, eq(clients.id, refreshFamilies.clientId))
    .where(isLiveFamily)
    .orderBy(desc(usedAt))
    .limit(1)
    .as('last')
  const app = db.select({ userId: authenticators.userId }).from(authenticators).where(eq(authenticators.userId, userId))
  return db
    .select({
      hasPassword: sql<boolean>`${users.passwordHash} is not null`,
      passkeys: number(db.select({ n: count() }).from(passkeys).where(eq(passkeys.userId, userId))),
      hasAuthenticator: sql<boolean>`${exists(app)}`,
      recoveryCodes: number(db.select({ n: count() }).from(recoveryCodes).where(eq(recoveryCodes.userId, userId))),
      sessions: number(db.select({ n: count() }).from(sessions).where(isLive)),
      // Drizzle makes this null if its first column is null, so the one that always has a value comes first.
      otherSession: { lastSeenAt: other.lastSeenAt, userAgent: other.userAgent },
      applications: number(db.select({ n: countDistinct(connected.clientId) }).from(connected)),
      lastApplication: { name: last.name, lastUsedAt: last.lastUsedAt },
    })
    .from(users)
    .leftJoin(other, sql`true`)
    .leftJoin(last, sql`true`)
    .where(eq(users.id, userId))
    .prepare('account_state')
})

/** Reads the state of the session's account in one statement. Throws NotFound if the account was deleted just now. */
export async function readAccountState(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  session: Pick<Session, 'id' | 'user'>,
): Promise<AccountState> {
  const [state] = await stateOf(db).execute({
    userId: session.user.id,
    sessionId: session.id,
    now: now().toISOString(),
  })
  if (!state) throw new NotFound('Account')
  return state
}
