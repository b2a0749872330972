import { createHash } from 'node:crypto'
import { and, eq, inArray, type SQL, sql } from 'drizzle-orm'
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

const FORGOTTEN_MS = 86_400_000
/** No pause. Not the moment of the attempt: one that was made a millisecond before it but arrives later would wait. */
const NO_PAUSE = new Date(0)

/** One of the counters that an attempt is held against. */
interface Hurdle {
  key: string
  backOff: BackOff
}

/** Counts on one of the hurdles, if those before it let the attempt through; answers with a row where it does so itself. */
function upsert({ key, backOff: { free, pauseMaxSeconds } }: Hurdle, at: Date, before: SQL | undefined): SQL {
  const now = sql`${at.toISOString()}::timestamptz`
  const noPause = sql`${NO_PAUSE.toISOString()}::timestamptz`
  const forgottenBefore = sql`${new Date(at.getTime() - FORGOTTEN_MS).toISOString()}::timestamptz`
  const count = sql`case when ${attempts.updatedAt} < ${forgottenBefore} then 1 else ${attempts.count} + 1 end`
  const pause = sql`least(${pauseMaxSeconds}::float8, power(2::float8, least(${count} - ${free}::int, 30)))`
  return sql`insert into ${attempts} (key, count, since, blocked_until, updated_at)
    select ${key}::text, 1, ${now}, ${noPause}, ${now} ${before && sql`where exists (select from ${before})`}
    on conflict (key) do update set
      count = ${count},
      updated_at = ${now},
      blocked_until = case when ${count} >= ${free}::int then ${now} + make_interval(secs => ${pause}) else ${noPause} end
      where ${attempts.blockedUntil} <= ${now}
    returning 1`
}

/**
 * Counts an attempt before it is made, so that a thousand at once are not a thousand free ones. Answers false during
 * the pause after earlier ones; such an attempt does not prolong it, and is not counted on the hurdles behind the one that
 * stopped it. A day without attempts forgets them.
 *
 * One statement and one commit for all hurdles. Whoever shares several with another has to give them in the same order.
 */
export async function admitAttempt({ db, now }: AttemptDeps, hurdles: readonly Hurdle[]): Promise<boolean> {
  const at = now()
  const names = hurdles.map((_, n) => sql.identifier(`hurdle_${n}`))
  const steps = hurdles.map((hurdle, n) => {
    const before = names[n - 1]
    return sql`${names[n]} as (${upsert(hurdle, at, before && sql`${before}`)})`
  })
  const rows = await db.execute(sql`with ${sql.join(steps, sql`, `)} select 1 from ${names.at(-1)}`)
  return rows.length > 0
}

/** Counts one more in a window that opens with the first. Returns the count, this one included. */
export async function countInWindow({ db, now }: AttemptDeps, key: string, windowMs: number): Promise<number> {
  const at = now()
  const openedAfter = new Date(at.getTime() - windowMs).toISOString()
  const isOver = sql`${attempts.since} <= ${openedAfter}::timestamptz`
  const [row] = await db
    .insert(attempts)
    .values({ key, count: 1, since: at, blockedUntil: NO_PAUSE, updatedAt: at })
    .onConflictDoUpdate({
      target: attempts.key,
      set: {
        count: sql`case when ${isOver} then 1 else ${attempts.count} + 1 end`,
        since: sql`case when ${isOver} then ${at.toISOString()}::timestamptz else ${attempts.since} end`,
        updatedAt: at,
      },
    })
    .returning({ count: attempts.count })
  return row?.count ?? 1
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
