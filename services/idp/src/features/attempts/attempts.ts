import { createHash } from 'node:crypto'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, gt, inArray, type SQL, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { attempts } from './table.ts'

type AttemptDeps = Pick<Deps, 'db' | 'now'>

/** The key under which attempts are counted together. Input is not kept: the key is a hash. */
export const attemptKey = (...parts: readonly string[]): string =>
  createHash('sha256').update(parts.join('\n')).digest('base64url')

interface BackOff {
  /** Attempts before the first pause. */
  free: number
  /** The longest pause; each pause is twice as long as the one before. */
  pauseMaxSeconds: number
}

const HURDLES_MAX = 3
/** Epoch = not blocked. Using "now" would block an attempt made 1 ms earlier that arrives later. */
const NO_PAUSE = new Date(0)

/** One of the counters that an attempt counts against. */
interface Hurdle {
  key: string
  backOff: BackOff
}

const stepAt = (place: number) => sql.identifier(`hurdle_${place}`)

/**
 * Does not wait until the commit is on disk: a crash of Postgres forgets the attempts of its last half second, and a flood of
 * them does not delay the commits of others. The first step sets this for the statement's own transaction.
 */
const hasNoWait = sql`set_config('synchronous_commit', 'off', true) = 'off'`

/**
 * Counts the attempt on the hurdle at this index if the one before let it through; returns the count if this one does, else
 * no row.
 */
function upsert(place: number): SQL {
  const parameter = (name: string) => sql.placeholder(`${name}${place}`)
  const now = sql`${sql.placeholder('now')}::timestamptz`
  const noPause = sql.raw(`'${NO_PAUSE.toISOString()}'::timestamptz`)
  const count = sql`case when ${attempts.updatedAt} < ${now} - interval '1 day' then 1 else ${attempts.count} + 1 end`
  const pause = sql`least(${parameter('pauseMax')}::float8, power(2::float8, least(${count} - ${parameter('free')}::int, 30)))`
  return sql`insert into ${attempts} (key, count, since, blocked_until, updated_at)
    select ${parameter('key')}::text, 1, ${now}, ${noPause}, ${now}
      where ${place === 0 ? hasNoWait : sql`exists (select from ${stepAt(place - 1)})`}
    on conflict (key) do update set
      count = ${count},
      updated_at = ${now},
      blocked_until = case when ${count} >= ${parameter('free')}::int then ${now} + make_interval(secs => ${pause}) else ${noPause} end
      where ${attempts.blockedUntil} <= ${now}
    returning ${attempts.count} as count`
}

const counted = { count: sql<number>`count` }
/** Statements for one hurdle, two, and so on. */
const admissions = Array.from({ length: HURDLES_MAX }, (_, last) =>
  lazyPrepared((db) => {
    const steps = Array.from({ length: last + 1 }, (_step, place) =>
      db.$with(`hurdle_${place}`, counted).as(upsert(place)),
    )
    const counts = steps.map((_step, place) => [`count${place}`, sql<number>`${stepAt(place)}.count`] as const)
    const all = sql.join(
      steps.map((_step, place) => stepAt(place)),
      sql`, `,
    )
    return db
      .with(...steps)
      .select(Object.fromEntries(counts))
      .from(all)
      .prepare(`admit_attempt_${last + 1}`)
  }),
)

/** The result of counting an attempt. */
export type Admission =
  /** counts: of each hurdle in order, including this attempt. */
  | { kind: 'admitted'; counts: readonly number[] }
  /** waitSeconds: until no hurdle is paused. by: the first paused one; undefined if its pause ended this instant. */
  | { kind: 'paused'; waitSeconds: number; by: string | undefined }

/** The active pauses of the given keys. */
const pausesOf = lazyPrepared((db) =>
  db
    .select({ key: attempts.key, blockedUntil: attempts.blockedUntil })
    .from(attempts)
    .where(
      and(
        inArray(
          attempts.key,
          Array.from({ length: HURDLES_MAX }, (_, place) => sql.placeholder(`key${place}`)),
        ),
        gt(attempts.blockedUntil, sql`${sql.placeholder('now')}::timestamptz`),
      ),
    )
    .prepare('pauses_of'),
)

/**
 * Counts an attempt before it is made, so that a thousand at once are not a thousand free ones. During the pause after
 * earlier attempts it returns `paused` and the time left. A paused attempt neither prolongs the pause nor counts on the
 * hurdles after the one that stopped it. A day without attempts resets the count.
 *
 * hurdles: 1 to 3. Callers that share some of them pass those in the same order.
 * An admitted attempt costs one statement and one commit; a second statement reads how long a pause lasts.
 */
export async function admitAttempt({ db, now }: AttemptDeps, hurdles: readonly Hurdle[]): Promise<Admission> {
  const admission = admissions[hurdles.length - 1]
  if (!admission) throw new Error(`An attempt has 1 to ${HURDLES_MAX} hurdles, not ${hurdles.length}`)
  const parameters = hurdles.map(({ key, backOff: { free, pauseMaxSeconds } }, place) => ({
    [`key${place}`]: key,
    [`free${place}`]: free,
    [`pauseMax${place}`]: pauseMaxSeconds,
  }))
  const time = now()
  const [admitted] = await admission(db).execute(Object.assign({ now: time.toISOString() }, ...parameters))
  if (admitted) return { kind: 'admitted', counts: hurdles.map((_hurdle, place) => admitted[`count${place}`] ?? 1) }
  const keys = Array.from({ length: HURDLES_MAX }, (_, place) => [`key${place}`, hurdles[place]?.key ?? ''])
  const pauses = await pausesOf(db).execute({ ...Object.fromEntries(keys), now: time.toISOString() })
  const waitMs = Math.max(...pauses.map(({ blockedUntil }) => blockedUntil.getTime() - time.getTime()), 0)
  return {
    kind: 'paused',
    waitSeconds: Math.max(1, Math.ceil(waitMs / 1_000)),
    by: hurdles.find(({ key }) => pauses.some((pause) => pause.key === key))?.key,
  }
}

/**
 * Counts one more attempt in a window that opens with the first one. Returns `paused` beyond `max`, with the seconds until
 * another window may open; refused attempts count as well.
 */
export async function admitInWindow(
  { db, now }: AttemptDeps,
  key: string,
  { max, windowMs }: { max: number; windowMs: number },
): Promise<{ kind: 'admitted' } | { kind: 'paused'; waitSeconds: number }> {
  const time = now()
  const openedAfter = new Date(time.getTime() - windowMs).toISOString()
  const isOver = sql`${attempts.since} <= ${openedAfter}::timestamptz`
  const [row] = await db
    .insert(attempts)
    .values({ key, count: 1, since: time, blockedUntil: NO_PAUSE, updatedAt: time })
    .onConflictDoUpdate({
      target: attempts.key,
      set: {
        count: sql`case when ${isOver} then 1 else ${attempts.count} + 1 end`,
        since: sql`case when ${isOver} then ${time.toISOString()}::timestamptz else ${attempts.since} end`,
        updatedAt: time,
      },
    })
    .returning({ count: attempts.count, since: attempts.since })
  if (!row || row.count <= max) return { kind: 'admitted' }
  // An attempt at the same moment may have opened the window by a later reading of the clock.
  const waitMs = Math.min(row.since.getTime() - time.getTime(), 0) + windowMs
  return { kind: 'paused', waitSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) }
}

/** Resets the counts after a successful attempt. */
export async function forgetAttempts({ db }: Pick<Deps, 'db'>, keys: readonly string[]): Promise<void> {
  await db.delete(attempts).where(inArray(attempts.key, [...keys]))
}

/** Takes back an attempt that turned out not to be a guess. */
export async function takeBackAttempt({ db }: Pick<Deps, 'db'>, key: string): Promise<void> {
  await db
    .update(attempts)
    .set({ count: sql`${attempts.count} - 1`, blockedUntil: NO_PAUSE })
    .where(and(eq(attempts.key, key), sql`${attempts.count} > 0`))
}
