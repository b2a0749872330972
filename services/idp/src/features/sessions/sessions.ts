import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { recordAudit } from '@platform/service/audit'
import { and, desc, eq, gt, inArray, isNull, or, type Placeholder, sql } from 'drizzle-orm'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { Deps } from '../../deps.ts'
import { type Ctx, userAgentOf } from '../../http/app.ts'
import { newCookieValue, readCookie, setCookie } from '../../site/cookies.ts'
import type { Session } from '../../site/session.ts'
import { sourceOf } from '../../site/source.ts'
import { withMore } from '../accounts/authentication-level.ts'
import { users } from '../accounts/table.ts'
import { authorizationCodes, deviceAuthorizations } from '../grants/table.ts'
import { nonceOfKnownBrowser, readKnownBrowsers, rememberBrowser } from '../known-browsers/known-browser.ts'
import { refreshFamilies } from '../refresh/table.ts'
import { notifyNewBrowser } from './notify-new-browser.ts'
import type { Proof } from './proof.ts'
import { sessions } from './table.ts'

const DAY_MS = 86_400_000
const IDLE_HOURS = 14 * 24
/** For sessions whose user did not choose to stay signed in. */
const IDLE_SHORT_HOURS = 24
const ABSOLUTE_MS = 90 * DAY_MS
/** How old `last_seen_at` has to be before a page view updates it. */
const TOUCH_MS = 3_600_000
/** Sessions beyond this many are not listed; ending all sessions ends them too. */
export const SESSIONS_LISTED_MAX = 200

const hashCookie = (cookie: string): Buffer => createHash('sha256').update(cookie).digest()

/** Which sessions are live at a time: not over, and visited recently enough, by their user's choice to stay signed in. */
export function isLiveAt(time: Date | Placeholder) {
  const now = sql`${time instanceof Date ? time.toISOString() : time}::timestamptz`
  const seenWithin = (hours: number) =>
    sql`${sessions.lastSeenAt} > ${now} - make_interval(hours => ${sql.raw(String(hours))})`
  return and(
    gt(sessions.expiresAt, now),
    or(seenWithin(IDLE_SHORT_HOURS), and(sessions.staysSignedIn, seenWithin(IDLE_HOURS))),
  )
}

const liveSession = lazyPrepared((db) =>
  db
    .select({
      id: sessions.id,
      authTime: sessions.authTime,
      amr: sessions.amr,
      lastSeenAt: sessions.lastSeenAt,
      answeredRequest: sessions.answeredRequest,
      answer: sessions.answer,
      staysSignedIn: sessions.staysSignedIn,
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
    .where(and(eq(sessions.cookieHash, sql.placeholder('cookieHash')), isLiveAt(sql.placeholder('now'))))
    .prepare('live_session'),
)

/** The session of a request's cookie; undefined if there is no live one, or if its user is suspended. */
export async function findSession(c: Ctx, deps: Deps): Promise<Session | undefined> {
  const cookie = readCookie(c, deps, 'session')
  if (cookie === undefined) return undefined
  const time = deps.now()
  const [row] = await liveSession(deps.db).execute({
    cookieHash: hashCookie(cookie),
    now: time.toISOString(),
  })
  if (!row) return undefined
  if (time.getTime() - row.lastSeenAt.getTime() > TOUCH_MS)
    await deps.db.update(sessions).set({ lastSeenAt: time }).where(eq(sessions.id, row.id))
  return { ...row, cookie }
}

/** The method of a sign-in, as in the audit log. */
type SignInWay = 'password' | 'passkey' | 'code' | 'recovery-code'

interface NewSession {
  userId: string
  proof: Proof
  /** When the user signed in; now if omitted. */
  authTime?: Date
  /** RFC 8176 names, separated by spaces. */
  amr: string
  /** Methods to record; undefined if nobody signs in, such as after a password change. */
  ways: readonly SignInWay[] | undefined
  /** Hash of the authorization request that this sign-in answers. */
  answeredRequest: Buffer | null
  /** Whether the browser keeps the session after it is closed. */
  staysSignedIn: boolean
}

/** How long a session lasts at most. */
interface Span {
  createdAt: Date
  expiresAt: Date
}

/**
 * Moves what a user granted in sessions that have ended to the session that replaced them in the same browser, so that ending
 * it ends those grants too; grants of other users in them stay unchanged. In the order of endGrants, for the same reason.
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
 * Ends a session that is being upgraded, and returns its span, which the new session keeps: a second factor does not prolong
 * it. Undefined if it has already ended.
 */
async function takeSpan(tx: Pick<Db, 'delete'>, sessionId: string): Promise<Span | undefined> {
  const [ended] = await tx
    .delete(sessions)
    .where(eq(sessions.id, sessionId))
    .returning({ createdAt: sessions.createdAt, expiresAt: sessions.expiresAt })
  return ended
}

interface Replacement {
  userId: string
  proof: Proof | undefined
  /** The session that the new one continues, under the same id. */
  upgraded: Session | undefined
  authTime: Date
  amr: string
  ways: readonly SignInWay[] | undefined
  answeredRequest: Buffer | null
  answer: Session['answer']
  staysSignedIn: boolean
}

/**
 * Starts a session in the browser under a new cookie. The browser's previous session ends, what the same user granted in it
 * moves to the new one, and the browser becomes known to the account. Returns another result if the user was suspended or the
 * proof no longer holds: the row lock makes one of the two see the other.
 */
async function replaceSession(
  c: Ctx,
  deps: Deps,
  time: Date,
  { userId, proof, upgraded, ways, ...details }: Replacement,
): Promise<'started' | 'suspended' | 'outdated'> {
  const cookie = newCookieValue()
  const before = readCookie(c, deps, 'session')
  const source = sourceOf(c, deps)
  // A session that continues keeps its id, and with it the grants made in it.
  const id = upgraded?.id ?? newId()
  const started = await deps.db.transaction(
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
      if (!user || (proof && !(await proof(tx, time, user)))) return 'outdated'
      const span = upgraded
        ? await takeSpan(tx, upgraded.id)
        : { createdAt: time, expiresAt: new Date(time.getTime() + ABSOLUTE_MS) }
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
        ...details,
        ...span,
        lastSeenAt: time,
        userAgent: userAgentOf(c),
        address: source.address,
      })
      if (ways)
        await recordAudit(tx, time, {
          actor: `user:${userId}`,
          action: upgraded ? 'user.second_factor_shown' : 'user.signed_in',
          subject: `user:${userId}`,
          details: { ways, ...source },
        })
      await carryGrants(tx, { userId, from: replaced.map((session) => session.id), to: id })
      return { ...user, ...span }
    },
  )
  if (started === 'suspended' || started === 'outdated') return started
  const lifetimeSeconds = Math.round((started.expiresAt.getTime() - time.getTime()) / 1_000)
  setCookie(c, deps, 'session', cookie, details.staysSignedIn ? lifetimeSeconds : undefined)
  const known = readKnownBrowsers(deps, readCookie(c, deps, 'known'))
  if (ways && !upgraded && nonceOfKnownBrowser(known, started) === undefined) notifyNewBrowser(deps, userId, source)
  rememberBrowser(c, deps, started)
  return 'started'
}

/**
 * Signs a browser in, replacing any session it had. `suspended`: the user is suspended. `outdated`: the proof no longer
 * holds, for example after a password change.
 */
export function startSession(
  c: Ctx,
  deps: Deps,
  { userId, proof, authTime, amr, ways, answeredRequest, staysSignedIn }: NewSession,
): ReturnType<typeof replaceSession> {
  const time = deps.now()
  return replaceSession(c, deps, time, {
    userId,
    proof,
    upgraded: undefined,
    authTime: authTime ?? time,
    amr,
    ways,
    answeredRequest,
    answer: answeredRequest && 'signed-in',
    staysSignedIn,
  })
}

interface Upgrade {
  /** The methods that were used. */
  amr: string
  /** When they were used; now if omitted. */
  authTime?: Date
  /** Methods to record; undefined if the reason is already recorded. */
  ways: readonly SignInWay[] | undefined
  /** Undefined if the check already consumed it. */
  proof?: Proof | undefined
}

/**
 * Upgrades a session that has proven more, under another cookie, so that a copy of the old cookie is worthless. Its id, its
 * span and the user's answers in it stay. `outdated`: it has ended meanwhile, or the proof no longer holds.
 */
export function upgradeSession(
  c: Ctx,
  deps: Deps,
  session: Session,
  { amr, authTime, ways, proof }: Upgrade,
): ReturnType<typeof replaceSession> {
  const time = deps.now()
  return replaceSession(c, deps, time, {
    userId: session.user.id,
    proof,
    upgraded: session,
    authTime: authTime ?? time,
    amr: withMore(session.amr, amr),
    ways,
    answeredRequest: session.answeredRequest,
    answer: session.answeredRequest && session.answer,
    staysSignedIn: session.staysSignedIn,
  })
}

/** Records how the user answered an authorization request, by its hash. */
export async function noteAnswer(
  { db }: Pick<Deps, 'db'>,
  sessionId: string,
  answeredRequest: Buffer,
  answer: 'chose-account' | 'declined-second-factor',
): Promise<void> {
  await db.update(sessions).set({ answeredRequest, answer }).where(eq(sessions.id, sessionId))
}

/** Ends the session of this browser, if there is one. Clients keep their tokens until those expire. */
export async function endSession(c: Ctx, deps: Deps): Promise<void> {
  const cookie = readCookie(c, deps, 'session')
  if (cookie === undefined) return
  await deps.db.delete(sessions).where(eq(sessions.cookieHash, hashCookie(cookie)))
  setCookie(c, deps, 'session', '', 0)
}

/** A session as shown to its owner. */
export interface ListedSession {
  id: string
  userAgent: string | null
  address: string | null
  createdAt: Date
  /** To the hour. */
  lastSeenAt: Date
}

/** The user's live sessions, most recently used first; at most SESSIONS_LISTED_MAX. */
export async function listSessions({ db, now }: Pick<Deps, 'db' | 'now'>, userId: string): Promise<ListedSession[]> {
  return db
    .select({
      id: sessions.id,
      userAgent: sessions.userAgent,
      address: sessions.address,
      createdAt: sessions.createdAt,
      lastSeenAt: sessions.lastSeenAt,
    })
    .from(sessions)
    .where(and(eq(sessions.userId, userId), isLiveAt(now())))
    .orderBy(desc(sessions.lastSeenAt), desc(sessions.id))
    .limit(SESSIONS_LISTED_MAX)
}
