import { arrayLiteral } from '@platform/runtime/batch-per-tick'
import { timeOfId } from '@platform/runtime/new-id'
import { and, desc, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import { aiUsageEvents } from '../table.ts'
import { segmentsOf } from './spans.ts'
import {
  eventsPassing,
  firstEventMs,
  idAt,
  requestsOf,
  SLACK_MS,
  startedIn,
  type UsageFilters,
  usageIn,
} from './usage-rows.ts'

const HOUR_MS = 3_600_000
/** Hours searched at once. */
const HOURS_AT_ONCE = 48

export type UsageRow = typeof aiUsageEvents.$inferSelect

/** The events to find. */
export interface EventFilters extends UsageFilters {
  /** Inclusive start; undefined: unlimited. */
  from?: Date | undefined
  /** Exclusive end. */
  to?: Date | undefined
}

const rangeOf = ({ from, to }: EventFilters, now: Date) => ({
  from: Math.max(0, from?.getTime() ?? 0),
  // Up to a day ahead of this clock, for machines whose clock is ahead.
  to: Math.min(to?.getTime() ?? Infinity, now.getTime() + 24 * HOUR_MS),
})

/** SQL: the conditions on events, including their time. */
function passing(filters: EventFilters, now: Date): SQL {
  const isOfAllTime = filters.from === undefined && filters.to === undefined
  return isOfAllTime ? eventsPassing(filters) : sql`${eventsPassing(filters)} and ${startedIn(rangeOf(filters, now))}`
}

/** True if an index leads directly to the events. */
const isDirect = ({ requestId, callerEndUserId }: UsageFilters): boolean =>
  requestId !== undefined || callerEndUserId !== undefined

/** The part of the range whose events are kept. */
async function keptRangeOf({ db, now }: Pick<AiDeps, 'db' | 'now'>, filters: EventFilters) {
  const { from, to } = rangeOf(filters, now())
  const first = await firstEventMs({ db })
  return { from: Math.max(from, first), to: Math.max(to, first) }
}

/** Counts the events that are kept: from sums as far as possible, so that no list counts its rows. */
export async function countEvents(deps: Pick<AiDeps, 'db' | 'now'>, filters: EventFilters): Promise<number> {
  const { db, now } = deps
  const counted = isDirect(filters)
    ? sql`select count(*)::float8 as count from ${aiUsageEvents} where ${passing(filters, now())}`
    : sql`select coalesce(sum(${requestsOf(filters.status)}), 0)::float8 as count
        from (${usageIn(segmentsOf(await keptRangeOf(deps, filters)), filters)}) used`
  const [row] = await db.execute<{ count: number }>(counted)
  return row?.count ?? 0
}

/**
 * Returns the UTC hours of a range that have such events, newest first, backwards from a time: as many as contain `events` of them,
 * and at most 48.
 */
async function hoursOf(
  { db }: Pick<AiDeps, 'db'>,
  filters: EventFilters,
  range: { from: number; to: number },
  until: number,
  events: number,
): Promise<number[]> {
  const hours = {
    of: 'hour' as const,
    from: Math.floor(range.from / HOUR_MS) * HOUR_MS,
    to: Math.ceil(Math.min(range.to, until) / HOUR_MS) * HOUR_MS,
  }
  const rows = await db.execute<{ at: number; events: number }>(sql`
    select extract(epoch from at)::float8 * 1000 as at, sum(${requestsOf(filters.status)})::float8 as events
    from (${usageIn([hours], filters)}) used group by used.at having sum(${requestsOf(filters.status)}) > 0
    order by used.at desc limit ${HOURS_AT_ONCE}`)
  // The events of the first hour may be after that time, so they do not count.
  let known = -(rows[0]?.events ?? 0)
  const enough = rows.findIndex((row) => (known += row.events) >= events)
  return rows.slice(0, enough < 0 ? rows.length : enough + 1).map(({ at: hourMs }) => hourMs)
}

/** Returns the newest events of these hours: each hour is searched for the full number. */
async function newestIn(
  { db, now }: Pick<AiDeps, 'db' | 'now'>,
  hours: readonly number[],
  filters: EventFilters,
  before: string | undefined,
  limit: number,
): Promise<UsageRow[]> {
  if (hours.length === 0) return []
  const lows = arrayLiteral(hours.map((hourMs) => idAt(hourMs - SLACK_MS)))
  const highs = arrayLiteral(hours.map((hourMs) => idAt(hourMs + HOUR_MS + SLACK_MS)))
  const begins = arrayLiteral(hours.map((hourMs) => new Date(hourMs).toISOString()))
  const hour = db
    .select({
      low: sql<string>`low`.as('low'),
      high: sql<string>`high`.as('high'),
      begin: sql<string>`begin`.as('begin'),
    })
    .from(sql`unnest(${lows}::uuid[], ${highs}::uuid[], ${begins}::timestamptz[]) as hours(low, high, begin)`)
    .as('hour')
  const newest = db
    .select()
    .from(aiUsageEvents)
    .where(
      and(
        passing(filters, now()),
        gte(aiUsageEvents.id, hour.low),
        lt(aiUsageEvents.id, hour.high),
        // Ids from earlier releases may fall into the neighbouring hour.
        sql`${aiUsageEvents.startedAt} >= ${hour.begin} and ${aiUsageEvents.startedAt} < ${hour.begin} + interval '1 hour'`,
        before === undefined ? undefined : lt(aiUsageEvents.id, before),
      ),
    )
    .orderBy(desc(aiUsageEvents.id))
    .limit(limit)
    .as('found')
  const rows = await db.select().from(hour).crossJoinLateral(newest).orderBy(desc(newest.id)).limit(limit)
  return rows.map((row) => row.found)
}

/**
 * Finds the newest matching events, newest first, older than the event with the id `before`. If few events match, it searches only
 * the hours that have some according to the sums.
 */
export async function findEvents(
  deps: Pick<AiDeps, 'db' | 'now'>,
  filters: EventFilters,
  before: string | undefined,
  limit: number,
): Promise<UsageRow[]> {
  if (isDirect(filters))
    return deps.db
      .select()
      .from(aiUsageEvents)
      .where(and(passing(filters, deps.now()), before === undefined ? undefined : lt(aiUsageEvents.id, before)))
      .orderBy(desc(aiUsageEvents.id))
      .limit(limit)
  const range = await keptRangeOf(deps, filters)
  const rows: UsageRow[] = []
  let until = before === undefined ? Infinity : timeOfId(before).getTime() + 1 + SLACK_MS
  while (rows.length < limit) {
    const missing = limit - rows.length
    const hours = await hoursOf(deps, filters, range, until, missing)
    if (hours.length === 0) break
    rows.push(...(await newestIn(deps, hours, filters, rows.at(-1)?.id ?? before, missing)))
    until = hours.at(-1) ?? 0
  }
  return rows
}
