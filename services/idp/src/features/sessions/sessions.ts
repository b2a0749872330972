import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, gt, inArray, isNull, sql } from 'drizzle-orm'
import { preparedOnce } from '@platform/runtime/prepared-once'
import type { Deps } from '../../deps.ts'
import { addressOf, type Ctx, userAgentOf } from '../../http/app.ts'
import { newCookieValue, readCookie, setCookie } from '../../site/cookies.ts'
import type { Session } from '../../site/session.ts'
import { withMore } from '../accounts/authentication-level.ts'
import { users } from '../accounts/table.ts'
import { recordAudit } from '../audit/audit.ts'
import { authorizationCodes } from '../authorize/table.ts'
import { deviceAuthorizations } from '../device/table.ts'
import { rememberBrowser } from '../known-browsers/known-browser.ts'
import { type Assertion, takeAssertion } from '../passkeys/take-assertion.ts'
import { revokeFamiliesOf, type UserGrants } from '../refresh/families.ts'
import { refreshFamilies } from '../refresh/table.ts'
import { sessions } from './table.ts'

const DAY_MS = 86_400_000
const IDLE_MS = 14 * DAY_MS
const ABSOLUTE_MS = 90 * DAY_MS
/** How old `last_seen_at` may be before a page is worth a write. */
const TOUCH_MS = 3_600_000
/** More than this many sessions are not listed; all of them end together. */
export const SESSIONS_LISTED_MAX = 100

const hashCookie = (cookie: string): Buffer => createHash('sha256').update(cookie).digest()

const liveSession = preparedOnce((db) =>
  db
    .select({
      id: sessions.id,
      authTime: sessions.authTime,
      amr: sessions.amr,
      lastSeenAt: sessions.lastSeenAt,
      answeredRequest: sessions.answeredRequest,
      answer: sessions.answer,
      user: {
        id: users.id,
        email: users.email,
        emailVerified: users.emailVerified,
        givenName: users.givenName,
        familyName: users.familyName,
        suspendedAt: users.suspendedAt,
      },
    })
    .from(sessions)
    .innerJoin(users, and(eq(users.id, sessions.userId), isNull(users.suspendedAt)))
    .where(
      and(
        eq(sessions.cookieHash, sql.placeholder('cookieHash')),
        gt(sessions.expiresAt, sql`${sql.placeholder('now')}::timestamptz`),
        gt(sessions.lastSeenAt, sql`${sql.placeholder('idleSince')}::timestamptz`),
      ),
    )
    .prepare('live_session'),
)

/** The session of a request's cookie; undefined without one that is live, or when its user is suspended. */
export async function findSession(c: Ctx, deps: Deps): Promise<Session | undefined> {
  const cookie = readCookie(c, deps, 'session')
  if (cookie === undefined) return undefined
  const at = deps.now()
  const [row] = await liveSession(deps.db).execute({
    cookieHash: hashCookie(cookie),
    now: at.toISOString(),
    idleSince: new Date(at.getTime() - IDLE_MS).toISOString(),
  })
  if (!row) return undefined
  if (at.getTime() - row.lastSeenAt.getTime() > TOUCH_MS)
    await deps.db.update(sessions).set({ lastSeenAt: at }).where(eq(sessions.id, row.id))
  return { ...row, cookie }
}

/** What a sign-in rests on. Whether it still holds is looked at in the transaction that starts the session. */
type Proof =
  /** passwordStampOf what the password was held against. */
  | { kind: 'password'; passwordStamp: string }
  | { kind: 'passkey'; assertion: Assertion }
  /** The session that this one goes on, under the same id, and a passkey if that was shown besides. */
  | { kind: 'session'; sessionId: string; assertion?: Assertion | undefined }

interface NewSession {
  userId: string
  proof: Proof
  /** When the user signed in; now, unless another session goes on in this one. */
  authTime?: Date
  /** RFC 8176 names with spaces between them. */
  amr: string
  /** The authorization request that this sign-in answers, hashed. */
  answeredRequest: Buffer | null
  /** What the answer was; the sign-in itself unless another session goes on in this one. */
  answer?: Session['answer']
}

/** What stands for a password hash outside of the database. */
export const passwordStampOf = (passwordHash: string): string =>
  createHash('sha256').update(passwordHash).digest('base64url')

/** How long a session lasts in any case. */
interface Span {
  createdAt: Date
  expiresAt: Date
}

/**
 * The span of the session that a proof is good for, undefined where the proof holds no more. A session that goes on keeps
 * its own: to show a second factor prolongs nothing.
 */
async function findSpan(
  tx: Pick<Db, 'insert' | 'update' | 'delete'>,
  at: Date,
  user: { id: string; passwordHash: string | null },
  proof: Proof,
): Promise<Span | undefined> {
  const { passwordHash } = user
  const whole: Span = { createdAt: at, expiresAt: new Date(at.getTime() + ABSOLUTE_MS) }
  switch (proof.kind) {
    case 'passkey':
      return (await takeAssertion(tx, at, user.id, proof.assertion)) ? whole : undefined
    case 'password':
      return passwordHash !== null && passwordStampOf(passwordHash) === proof.passwordStamp ? whole : undefined
    case 'session': {
      if (proof.assertion && !(await takeAssertion(tx, at, user.id, proof.assertion))) return undefined
      const [ended] = await tx
        .delete(sessions)
        .where(eq(sessions.id, proof.sessionId))
        .returning({ createdAt: sessions.createdAt, expiresAt: sessions.expiresAt })
      return ended
    }
  }
}

/**
 * Makes what a user granted in sessions that are gone part of the one that took their place in the same browser, so that
 * ending it ends that too; what others granted in them stays theirs. In the order of endGrants, for the same reason.
 */
async function carryGrants(
  tx: Pick<Db, 'update'>,
  { userId, from, to }: { userId: string; from: readonly string[]; to: string },
): Promise<void> {
  if (from.length === 0) return
  for (const grants of [authorizationCodes, deviceAuthorizations, refreshFamilies])
    await tx
      .update(grants)
      .set({ sid: to })
      .where(and(eq(grants.userId, userId), inArray(grants.sid, from)))
}

/**
 * Signs a browser in under a new cookie. The session that it had is gone, what the same user granted in it belongs to the
 * new one, and the account knows the browser from now on. Answers otherwise when the user was suspended or got another
 * password meanwhile: the row lock makes one of the two see the other.
 */
export async function startSession(
  c: Ctx,
  deps: Deps,
  { userId, proof, amr, authTime, answeredRequest, answer = 'signed-in' }: NewSession,
): Promise<'started' | 'suspended' | 'outdated'> {
  const { db, now } = deps
  const at = now()
  const cookie = newCookieValue()
  const before = readCookie(c, deps, 'session')
  // A session that goes on keeps its id, and with it what was granted in it.
  const id = proof.kind === 'session' ? proof.sessionId : newId()
  const started = await db.transaction(
    async (tx): Promise<'suspended' | 'outdated' | (Parameters<typeof rememberBrowser>[2] & Span)> => {
      const [user] = await tx
        .select({
          id: users.id,
          suspendedAt: users.suspendedAt,
          passwordHash: users.passwordHash,
          updatedAt: users.updatedAt,
        })
        .from(users)
        .where(eq(users.id, userId))
        .for('share')
      const span = user && (await findSpan(tx, at, user, proof))
      if (!span) return 'outdated'
      if (user.suspendedAt) return 'suspended'
      const replaced =
        before === undefined
          ? []
          : await tx
              .delete(sessions)
              .where(eq(sessions.cookieHash, hashCookie(before)))
              .returning({ id: sessions.id })
      await tx.insert(sessions).values({
        id,
        cookieHash: hashCookie(cookie),
        userId,
        authTime: authTime ?? at,
        amr,
        ...span,
        lastSeenAt: at,
        userAgent: userAgentOf(c),
        address: addressOf(c, deps),
        answeredRequest,
        answer: answeredRequest && answer,
      })
      await carryGrants(tx, { userId, from: replaced.map((session) => session.id), to: id })
      return { ...user, ...span }
    },
  )
  if (started === 'suspended' || started === 'outdated') return started
  setCookie(c, deps, 'session', cookie, Math.round((started.expiresAt.getTime() - at.getTime()) / 1_000))
  rememberBrowser(c, deps, started)
  return 'started'
}

interface Shown {
  amr: string
  /** Now, when it was shown in this moment. */
  authTime: Date
  assertion?: Assertion | undefined
}

/**
 * Lets a session that has shown more go on as one that has, under another cookie: a copy of the old one is left behind.
 * Its id and what the user answered in it stay. Answers otherwise when it ended meanwhile or the passkey was used before.
 */
export function goOnAs(
  c: Ctx,
  deps: Deps,
  session: Session,
  { amr, authTime, assertion }: Shown,
): ReturnType<typeof startSession> {
  return startSession(c, deps, {
    userId: session.user.id,
    proof: { kind: 'session', sessionId: session.id, assertion },
    amr: withMore(session.amr, amr),
    authTime,
    answeredRequest: session.answeredRequest,
    answer: session.answer,
  })
}

/** Notes how the user answered an authorization request, hashed. */
export async function noteAnswer(
  { db }: Pick<Deps, 'db'>,
  sessionId: string,
  answeredRequest: Buffer,
  answer: 'chose-account' | 'declined-second-factor',
): Promise<void> {
  await db.update(sessions).set({ answeredRequest, answer }).where(eq(sessions.id, sessionId))
}

/** Ends the session of this browser, if there is one. What clients hold goes on until it expires. */
export async function endSession(c: Ctx, deps: Deps): Promise<void> {
  const cookie = readCookie(c, deps, 'session')
  if (cookie === undefined) return
  await deps.db.delete(sessions).where(eq(sessions.cookieHash, hashCookie(cookie)))
  setCookie(c, deps, 'session', '', 0)
}

/** A session as its owner sees it. */
export interface ListedSession {
  id: string
  userAgent: string | null
  address: string | null
  createdAt: Date
  /** To the hour. */
  lastSeenAt: Date
}

/** The user's live sessions, those used last first; SESSIONS_LISTED_MAX at most. */
export async function listSessions({ db, now }: Pick<Deps, 'db' | 'now'>, userId: string): Promise<ListedSession[]> {
  const at = now()
  return db
    .select({
      id: sessions.id,
      userAgent: sessions.userAgent,
      address: sessions.address,
      createdAt: sessions.createdAt,
      lastSeenAt: sessions.lastSeenAt,
    })
    .from(sessions)
    .where(
      and(
        eq(sessions.userId, userId),
        gt(sessions.expiresAt, at),
        gt(sessions.lastSeenAt, new Date(at.getTime() - IDLE_MS)),
      ),
    )
    .orderBy(desc(sessions.lastSeenAt), desc(sessions.id))
    .limit(SESSIONS_LISTED_MAX)
}

/**
 * Ends one session of a user from another, and what was granted in it: the machine may be in the wrong hands, and with it
 * what its programs hold. Signing out in a browser leaves that alone (endSession). Safe to repeat.
 */
export async function endSessionOf(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    // First the user's row: a session that goes on under another cookie has a new row, which this would not see.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
    // Then the session's: a code or an approval that is under way waits for it, or is waited for.
    const ended = await tx
      .delete(sessions)
      .where(and(eq(sessions.id, sessionId), eq(sessions.userId, userId)))
      .returning({ id: sessions.id })
    if (ended.length === 0) return
    const grants = await endGrants(tx, at, { userId, sid: sessionId })
    await recordAudit(tx, at, {
      actor: `user:${userId}`,
      action: 'session.ended',
      subject: `user:${userId}`,
      details: { sessionId, grants },
    })
  })
}

/** Ends everything that lets someone in as this user, at the user's own wish. What clients may have stays agreed to. */
export async function signOutEverywhere({ db, now }: Pick<Deps, 'db' | 'now'>, userId: string): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    // First the user's row: a sign-in that is under way waits for it, or is waited for.
    await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
    // Browsers that were known to the account are not any more (decision 16).
    await tx.update(users).set({ updatedAt: at }).where(eq(users.id, userId))
    await endAllAccess(tx, at, userId)
    await recordAudit(tx, at, {
      actor: `user:${userId}`,
      action: 'user.signed_out_everywhere',
      subject: `user:${userId}`,
    })
  })
}

/**
 * Ends everything that lets someone in as this user: sessions, and what was granted to clients. Part of the transaction
 * that had the reason.
 */
export async function endAllAccess(tx: Pick<Db, 'update' | 'delete'>, at: Date, userId: string): Promise<void> {
  await tx.delete(sessions).where(eq(sessions.userId, userId))
  await endGrants(tx, at, { userId })
}

/**
 * Ends what a user granted to clients: pending codes, device approvals, refresh families. Part of the transaction that
 * had the reason. The families come last: a code that is being redeemed meanwhile holds its row, and the family it founds
 * is seen by the statement after. Returns how many there were.
 */
export async function endGrants(tx: Pick<Db, 'update'>, at: Date, grants: UserGrants): Promise<number> {
  const { userId, clientId, sid } = grants
  const codes = await tx
    .update(authorizationCodes)
    .set({ consumedAt: at })
    .where(
      and(
        eq(authorizationCodes.userId, userId),
        clientId === undefined ? undefined : eq(authorizationCodes.clientId, clientId),
        sid === undefined ? undefined : eq(authorizationCodes.sid, sid),
        isNull(authorizationCodes.consumedAt),
      ),
    )
    .returning({ clientId: authorizationCodes.clientId })
  const devices = await tx
    .update(deviceAuthorizations)
    .set({ consumedAt: at })
    .where(
      and(
        eq(deviceAuthorizations.userId, userId),
        clientId === undefined ? undefined : eq(deviceAuthorizations.clientId, clientId),
        sid === undefined ? undefined : eq(deviceAuthorizations.sid, sid),
        isNull(deviceAuthorizations.consumedAt),
      ),
    )
    .returning({ clientId: deviceAuthorizations.clientId })
  return codes.length + devices.length + (await revokeFamiliesOf(tx, at, grants))
}
