import { createHash } from 'node:crypto'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, gt, inArray, type SQL, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { attempts } from './table.ts'

type AttemptDeps = Pick<Deps, 'db' | 'now'>

/** Whose attempts are counted together. What was typed is not kept: the key is a hash. */
export const attemptKey = (...parts: readonly string[]): string =>
  createHash('sha256').update(parts.join('\n')).digest('base64url')

interface BackOff {
  /** Attempts without a pause between them. */
  free: number
  /** The longest pause; each one before is half of the next. */
  pauseMaxSeconds: number
}

const HURDLES_MAX = 3
/** No pause. Not the moment of the attempt: one that was made a millisecond before it but arrives later would wait. */
const NO_PAUSE = new Date(0)

/** One of the counters that an attempt is held against. */
interface Hurdle {
  key: string
  backOff: BackOff
}

const stepAt = (place: number) => sql.identifier(`hurdle_${place}`)

/**
 * The commit is not waited for until it is on disk: a crash of Postgres forgets the attempts of its last half second, and a
 * flood of them does not queue before the commits of others. The first step says so for the statement's own transaction.
 */
const hasNoWait = sql`set_config('synchronous_commit', 'off', true) = 'off'`

/** Counts on the hurdle of this place, if the one before it let the attempt through; has a row, the count, where it does so itself. */
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

/** What came of counting an attempt. */
export type Admission =
  /** counts: of each hurdle in their order, this attempt included. */
  | { kind: 'admitted'; counts: readonly number[] }
  /** waitSeconds: until no hurdle has a pause any more. by: the first that has one; undefined if it ended this instant. */
  | { kind: 'paused'; waitSeconds: number; by: string | undefined }

/** The pauses that an attempt ran into, by key. */
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
 * Counts an attempt before it is made, so that a thousand at once are not a thousand free ones. Answers `paused`, and for how
 * long, during the pause after earlier attempts. Such an attempt does not prolong the pause, and is not counted on the
 * hurdles behind the one that stopped it. A day without attempts forgets them.
 *
 * hurdles: 1 to 3. Callers that share some of them give those in the same order.
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
 * Counts one more in a window that opens with the first. Answers `paused` beyond `max`, with the seconds until another window
 * may open; those that are refused count as well.
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
  const waitMs = row.since.getTime() + windowMs - time.getTime()
  return { kind: 'paused', waitSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) }
}

/** Forgets what was counted: the attempt was a success. */
export async function forgetAttempts({ db }: Pick<Deps, 'db'>, keys: readonly string[]): Promise<void> {
  await db.delete(attempts).where(inArray(attempts.key, [...keys]))
}

/** Takes back one attempt that turned out to be none. */
export async function takeBackAttempt({ db }: Pick<Deps, 'db'>, key: string): Promise<void> {
  await db
    .update(attempts)
    .set({ count: sql`${attempts.count} - 1`, blockedUntil: NO_PAUSE })
    .where(and(eq(attempts.key, key), sql`${attempts.count} > 0`))
}
