import { createHash } from 'node:crypto'
import { and, eq, inArray, lte, sql } from 'drizzle-orm'
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

/**
 * Counts an attempt before it is made, so that a thousand at once are not a thousand free ones. Answers false during
 * the pause after earlier ones; such an attempt does not prolong it. A day without attempts forgets them.
 */
export async function admitAttempt(
  { db, now }: AttemptDeps,
  key: string,
  { free, pauseMaxSeconds }: BackOff,
): Promise<boolean> {
  const at = now()
  const forgottenBefore = new Date(at.getTime() - FORGOTTEN_MS).toISOString()
  const count = sql<number>`case when ${attempts.updatedAt} < ${forgottenBefore}::timestamptz then 1 else ${attempts.count} + 1 end`
  const pause = sql`least(${pauseMaxSeconds}::float8, power(2::float8, least(${count} - ${free}::int, 30)))`
  const admitted = await db
    .insert(attempts)
    .values({ key, count: 1, since: at, blockedUntil: NO_PAUSE, updatedAt: at })
    .onConflictDoUpdate({
      target: attempts.key,
      set: {
        count,
        updatedAt: at,
        blockedUntil: sql`case when ${count} >= ${free}::int
          then ${at.toISOString()}::timestamptz + make_interval(secs => ${pause}) else ${NO_PAUSE.toISOString()}::timestamptz end`,
      },
      setWhere: lte(attempts.blockedUntil, at),
    })
    .returning({ key: attempts.key })
  return admitted.length > 0
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
