import { FOLLOWED_REQUESTS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { and, asc, count, desc, eq, gt, inArray, max, sql } from 'drizzle-orm'
import { applications } from '../../tenancy/applications/table.ts'
import { eventText, type Feed, type FeedDeps, openFeed } from '../../cluster/streams/feed.ts'
import { openStreams } from '../../cluster/streams/table.ts'
import { shownRequest } from './shown-request.ts'
import { followedRequests, requestLogs } from './table.ts'

const NAME = 'requests'
const CHANNEL = 'followed_requests'
/** The maximum duration of a stream: nobody resumes from before that. */
const KEPT_MS = 900_000
/** A reader that is further behind gets only the newest requests, and the number it missed. */
const BEHIND_MAX = 2_000
/** Missed requests are counted up to this. */
const MISSED_MAX = 10_000

/**
 * How long requests are numbered after a stream began: for the duration of the stream, for as long as its last event can be
 * named, and a minute for clock differences. A client that reconnects thus gets the requests that were stored in between.
 */
const NUMBERED_MS = 2 * KEPT_MS + 60_000

/** Has the requests of an application numbered from now on, by a marker among the open streams that uses no slot. */
async function keepNumbered({ db, now }: { db: Db; now: () => Date }, applicationId: string): Promise<void> {
  const expiresAt = new Date(now().getTime() + NUMBERED_MS)
  await db
    .insert(openStreams)
    .values({ id: applicationId, resource: `numbered:${applicationId}`, processId: applicationId, expiresAt })
    .onConflictDoUpdate({ target: openStreams.id, set: { expiresAt } })
}

/**
 * Numbers the requests of applications that have, or recently had, followers, in the transaction that stores them. A lock per
 * application makes the numbers follow the order of commits, so that none appears below one that was already read. Applications
 * without followers cost one look-up per batch.
 */
export async function noteFollowed(
  tx: Pick<Db, 'select' | 'insert' | 'execute'>,
  rows: readonly { id: string; applicationId: string; completedAt: Date }[],
): Promise<void> {
  const applicationIds = [...new Set(rows.map(({ applicationId }) => applicationId))]
  const numbered = await tx
    .select({ applicationId: openStreams.id })
    .from(openStreams)
    .where(inArray(openStreams.id, applicationIds))
    .orderBy(asc(openStreams.id))
  for (const { applicationId } of numbered) {
    await tx.execute(sql`select pg_advisory_xact_lock(${FOLLOWED_REQUESTS_LOCK_CLASS}, hashtext(${applicationId}))`)
    const of = rows.filter((row) => row.applicationId === applicationId)
    await tx
      .insert(followedRequests)
      .values(of.map(({ id, completedAt }) => ({ applicationId, requestId: id, storedAt: completedAt })))
    await tx.execute(sql`select pg_notify(${CHANNEL}, ${applicationId})`)
  }
}

const gap = (missed: number): string =>
  eventText('gap', { missed: Math.min(missed, MISSED_MAX), isMore: missed > MISSED_MAX })

/** Requests after a number, oldest first; for a reader that is far behind only the newest, and the number it missed. */
async function readFollowed(db: Db, applicationId: string, after: number, limit: number) {
  const [application] = await db
    .select({ id: applications.id, name: applications.name })
    .from(applications)
    .where(eq(applications.id, applicationId))
  if (!application) return []
  const behind = and(eq(followedRequests.applicationId, applicationId), gt(followedRequests.number, after))
  const isFarBehind = (await countUpTo(db, followedRequests, behind, BEHIND_MAX + 1)) > BEHIND_MAX
  const rows = await db
    .select({ number: followedRequests.number, request: requestLogs })
    .from(followedRequests)
    .innerJoin(
      requestLogs,
      and(eq(requestLogs.applicationId, applicationId), eq(requestLogs.id, followedRequests.requestId)),
    )
    .where(behind)
    .orderBy(isFarBehind ? desc(followedRequests.number) : asc(followedRequests.number))
    .limit(isFarBehind ? limit - 1 : limit)
  const events = rows
    .toSorted((a, b) => a.number - b.number)
    .map(({ number, request }) => ({
      place: number,
      text: eventText('request', shownRequest(request, application), request.id),
    }))
  const first = events.at(0)
  if (!isFarBehind || !first) return events
  const waiting = await countUpTo(db, followedRequests, behind, MISSED_MAX + limit)
  return [{ place: first.place - 1, text: gap(waiting - events.length) }, ...events]
}

/** Streams of requests, positioned by the number under which they were stored. */
export type RequestFeed = Feed<number>

/** Opens this process's feed of requests: `request` with a record as in the list, and `gap` if some were left out. */
export function openRequestFeed(deps: FeedDeps & { db: Db }, heartbeatMs?: number): RequestFeed & { close(): void } {
  const { db } = deps
  const source = {
    name: NAME,
    channel: CHANNEL,
    isAfter: (a: number, b: number) => a > b,
    // In one snapshot, so that counting and reading see the same rows.
    read: (applicationId: string, after: number, limit: number) =>
      db.transaction((tx) => readFollowed(tx, applicationId, after, limit), {
        isolationLevel: 'repeatable read',
        accessMode: 'read only',
      }),
  }
  return openFeed(deps, source, heartbeatMs)
}

/** Counts matching rows, up to a limit. */
async function countUpTo(
  db: Db,
  table: typeof followedRequests | typeof requestLogs,
  where: ReturnType<typeof and>,
  limit: number,
): Promise<number> {
  const some = db
    .select({ one: sql`1` })
    .from(table)
    .where(where)
    .limit(limit)
    .as('some')
  const [row] = await db.select({ counted: count() }).from(some)
  return row?.counted ?? 0
}

/**
 * Where a stream begins: now, or after the last request received. greeting: an event with the number of missed requests, if the
 * order in which they were stored is no longer known.
 */
export async function placeToFollowFrom(
  deps: { db: Db; now: () => Date },
  applicationId: string,
  lastEventId: string | undefined,
): Promise<{ place: number; greeting: string | undefined }> {
  const { db, now } = deps
  await keepNumbered(deps, applicationId)
  const mine = eq(followedRequests.applicationId, applicationId)
  if (lastEventId !== undefined) {
    const [row] = await db
      .select({ number: followedRequests.number })
      .from(followedRequests)
      .where(
        and(
          mine,
          eq(followedRequests.requestId, lastEventId),
          // An older row may still exist, with a gap after it.
          gt(followedRequests.storedAt, new Date(now().getTime() - KEPT_MS)),
        ),
      )
    if (row) return { place: row.number, greeting: undefined }
  }
  const [latest] = await db
    .select({ number: max(followedRequests.number) })
    .from(followedRequests)
    .where(mine)
  const place = latest?.number ?? 0
  if (lastEventId === undefined) return { place, greeting: undefined }
  const since = and(eq(requestLogs.applicationId, applicationId), gt(requestLogs.id, lastEventId))
  const missed = await countUpTo(db, requestLogs, since, MISSED_MAX + 1)
  return { place, greeting: missed === 0 ? undefined : gap(missed) }
}

/** Deletes rows from which no stream can resume any more. Safe to repeat. */
export async function discardFollowed({ db, now }: { db: Db; now: () => Date }): Promise<void> {
  await discardBefore(db, followedRequests.storedAt, new Date(now().getTime() - KEPT_MS))
}
