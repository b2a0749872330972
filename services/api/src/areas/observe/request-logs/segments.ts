import { and, asc, count, eq, gte, lt, sql, sum } from 'drizzle-orm'
import { firstIdAt } from '@platform/runtime/new-id'
import type { ObserveDeps } from '../deps.ts'
import {
  hasPathPrefix,
  isOfPlaceOnly,
  isUncounted,
  matching,
  ofPlace,
  conditionsOf,
  conditionsByTime,
  type RequestFilters,
} from './filters.ts'
import { hourAfter, type Span, wholeHoursOf } from './hours.ts'
import { countRankedHours } from './path-ranks.ts'
import { requestCounts, requestLogs, requestPlaceCounts } from './table.ts'

type ReadDeps = Pick<ObserveDeps, 'db'>

/** Above this share of all requests, reading in order of time is faster than by path. */
const WIDE_SHARE = 0.1
/** Short enough to read in full. */
const SHORT_MS = 7_200_000

/** A segment of a span with the number of matching requests; undefined if no counts give it. */
export interface Segment extends Span {
  total: number | undefined
  /** The number of all its requests, if known. */
  requests?: number
}

/**
 * Splits a span into segments, oldest first: its whole hours, whose number of matching requests is known from counts, and the
 * rest of an hour at either end. With a path filter only ranked hours have a number; with a filter that has no counts, none has.
 */
export async function segmentsOf(
  deps: ReadDeps,
  applicationId: string,
  span: Span,
  filters: RequestFilters,
): Promise<Segment[]> {
  const { from, to } = span
  const hours = wholeHoursOf(span)
  if (hours.to && hours.to <= hours.from) return [{ from, to, total: undefined }]
  const count = hasPathPrefix(filters) ? countRankedHours : isOfPlaceOnly(filters) ? countPlaces : countHours
  const segments = [
    { from, to: hours.from, total: undefined },
    ...(await count(deps, applicationId, hours, filters)),
    ...(hours.to ? [{ from: hours.to, to, total: undefined }] : []),
  ]
  const within = segments.filter((segment) => !segment.to || segment.from < segment.to)
  if (!isUncounted(filters)) return within
  // Hours without matches need not be read; for the others these counts give no number.
  return within.filter(({ total }) => total !== 0).map(({ from, to }) => ({ from, to, total: undefined }))
}

async function countHours(
  { db }: ReadDeps,
  applicationId: string,
  hours: Span,
  filters: RequestFilters,
): Promise<Segment[]> {
  const rows = await db
    .select({ hour: requestCounts.hour, total: sum(requestCounts.requests).mapWith(Number) })
    .from(requestCounts)
    .where(
      and(
        eq(requestCounts.applicationId, applicationId),
        gte(requestCounts.hour, hours.from),
        hours.to && lt(requestCounts.hour, hours.to),
        ...matching(requestCounts, filters),
      ),
    )
    .groupBy(requestCounts.hour)
    .orderBy(asc(requestCounts.hour))
  return rows.map(({ hour, total }) => ({ from: hour, to: hourAfter(hour), total }))
}

/**
 * Like `countHours`, by places and buckets. Undefined for an hour in which a process of an earlier release, which counted no
 * places, served requests.
 */
async function countPlaces(
  { db }: ReadDeps,
  applicationId: string,
  hours: Span,
  filters: RequestFilters,
): Promise<Segment[]> {
  const within = (t: typeof requestCounts | typeof requestPlaceCounts) =>
    and(eq(t.applicationId, applicationId), gte(t.hour, hours.from), hours.to && lt(t.hour, hours.to))
  const all = db
    .select({ hour: requestCounts.hour, requests: sum(requestCounts.requests).mapWith(Number).as('all_count') })
    .from(requestCounts)
    .where(within(requestCounts))
    .groupBy(requestCounts.hour)
    .as('all_requests')
  const match = and(...ofPlace(requestPlaceCounts, filters))
  const placed = db
    .select({
      hour: requestPlaceCounts.hour,
      requests: sum(requestPlaceCounts.requests).mapWith(Number).as('placed_count'),
      total: sql<number>`coalesce(sum(${requestPlaceCounts.requests}) filter (where ${match}), 0)`
        .mapWith(Number)
        .as('matching_count'),
    })
    .from(requestPlaceCounts)
    .where(within(requestPlaceCounts))
    .groupBy(requestPlaceCounts.hour)
    .as('placed')
  const rows = await db
    .select({ hour: all.hour, requests: all.requests, placed: placed.requests, total: placed.total })
    .from(all)
    .leftJoin(placed, eq(placed.hour, all.hour))
    .orderBy(asc(all.hour))
  return rows.map(({ hour, requests, placed: counted, total }) => ({
    from: hour,
    to: hourAfter(hour),
    total: counted === requests ? (total ?? undefined) : undefined,
  }))
}

/** Merges adjacent segments. They may be ascending or descending in time. */
function joined(segments: readonly Span[]): Span[] {
  const spans: Span[] = []
  for (const { from, to } of segments) {
    const last = spans.at(-1)
    if (last?.to && last.to.getTime() === from.getTime()) last.to = to
    else if (to && last?.from.getTime() === to.getTime()) last.from = from
    else spans.push({ from, to })
  }
  return spans
}

/** True if so many requests match that searching by path is not worth it. */
function isWide(segments: readonly Segment[]): boolean {
  const ranked = segments.filter(({ requests, total }) => requests !== undefined && total !== undefined)
  const sum = (member: 'requests' | 'total') => ranked.reduce((all, segment) => all + (segment[member] ?? 0), 0)
  return sum('total') > sum('requests') * WIDE_SHARE
}

/**
 * The number of matching requests in all segments. Where no counts exist, rows are counted: by an index, except in short segments
 * with many matching rows.
 */
export async function totalOf(
  { db, now }: Pick<ObserveDeps, 'db' | 'now'>,
  applicationId: string,
  segments: readonly Segment[],
  filters: RequestFilters,
): Promise<number> {
  const byTime = isWide(segments)
  async function countRows({ from, to }: Span): Promise<number> {
    const isShort = (to ?? now()).getTime() - from.getTime() <= SHORT_MS
    const [row] = await db
      .select({ total: count() })
      .from(requestLogs)
      .where(
        and(
          eq(requestLogs.applicationId, applicationId),
          gte(requestLogs.id, firstIdAt(from)),
          to && lt(requestLogs.id, firstIdAt(to)),
          ...(byTime && isShort ? conditionsByTime(filters) : conditionsOf(filters)),
        ),
      )
    return row?.total ?? 0
  }
  const known = segments.reduce((all, { total }) => all + (total ?? 0), 0)
  const counted = await Promise.all(joined(segments.filter(({ total }) => total === undefined)).map(countRows))
  return counted.reduce((all, each) => all + each, known)
}

/** Where to search for the newest matches, newest first: the segments that hold as many as wanted. */
export function searchRangesOf(segments: readonly Segment[], wanted: number): Span[] {
  const ranges: Span[] = []
  let count = 0
  for (const segment of segments.toReversed()) {
    if (count >= wanted) break
    if (segment.total !== 0) ranges.push(segment)
    count += segment.total ?? 0
  }
  return joined(ranges)
}
