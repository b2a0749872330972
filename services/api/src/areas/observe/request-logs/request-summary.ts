import { DISCARDED_AT_ONCE, inBatch } from '@platform/runtime/discard-rows'
import { and, eq, lt, sql } from 'drizzle-orm'
import type { ObserveDeps } from '../deps.ts'
import { percentileOf } from './summary-buckets.ts'
import { requestSummaries, type SummaryDimension } from './table.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Retention of sums by minute, and of sums by hour and day. */
const MINUTES_KEPT_MS = 48 * HOUR_MS
const HOURS_KEPT_MS = 35 * DAY_MS
const GROUPS_MAX = 100
/** Without an interval, spans up to this length are reported by minute. */
const BY_MINUTE_MS = 3 * HOUR_MS

type Interval = 'minute' | 'hour'

interface Figures {
  requests: number
  requestBodyBytes: number
  responseBodyBytes: number
  bytesSent: number
  /** Milliseconds, within 5 %; null without requests. */
  p50Ms: number | null
  p95Ms: number | null
}

export interface RequestSummary {
  from: Date
  to: Date
  interval: Interval
  total: Figures
  /** Intervals that had requests, oldest first. They add up to the total: the span may cut the first and last hour. */
  series: (Figures & { at: Date })[]
  /** The 100 with the most requests, in descending order. value: null for requests that have none. */
  groups: (Figures & { value: string | null })[]
}

interface Segment {
  minutes: 1 | 60 | 1_440
  from: number
  to: number
}

const floor = (timeMs: number, ms: number): number => Math.floor(timeMs / ms) * ms
const ceil = (timeMs: number, ms: number): number => Math.ceil(timeMs / ms) * ms

/**
 * Covers a span with as few rows as possible: whole days, whole hours around them, and minutes at the ends. interval: the longest
 * span of a row; undefined if all rows are summed into one.
 */
function segmentsOf(from: number, to: number, interval?: Interval): Segment[] {
  if (interval === 'minute') return [{ minutes: 1, from, to }]
  const inner = (ms: number): [number, number] => {
    const [start, end] = [ceil(from, ms), floor(to, ms)]
    return start < end ? [start, end] : [to, to]
  }
  const [hourFrom, hourTo] = inner(HOUR_MS)
  const [dayFrom, dayTo] = interval === 'hour' ? [to, to] : inner(DAY_MS)
  const hours: [number, number][] =
    dayFrom < dayTo
      ? [
          [hourFrom, dayFrom],
          [dayTo, hourTo],
        ]
      : [[hourFrom, hourTo]]
  const minutes: [number, number][] =
    hourFrom < hourTo
      ? [
          [from, hourFrom],
          [hourTo, to],
        ]
      : [[from, to]]
  return [
    { minutes: 1_440 as const, from: dayFrom, to: dayTo },
    ...hours.map(([start, end]) => ({ minutes: 60 as const, from: start, to: end })),
    ...minutes.map(([start, end]) => ({ minutes: 1 as const, from: start, to: end })),
  ].filter((segment) => segment.from < segment.to)
}

/**
 * SQL: the rows of a dimension in some segments, each a range of the key. Spelled out, so that Postgres plans each as a range.
 */
const rowsIn = (applicationId: string, dimension: SummaryDimension, segments: readonly Segment[]) =>
  sql.join(
    (segments.length > 0 ? segments : [{ minutes: 1 as const, from: 0, to: 0 }]).map(
      ({ minutes, from, to }) => sql`
        select at, value, bucket, requests, request_body_bytes, response_body_bytes, bytes_sent from ${requestSummaries}
        where application_id = ${applicationId} and minutes = ${sql.raw(String(minutes))} and dimension = ${dimension}
          and at >= ${new Date(from).toISOString()}::timestamptz and at < ${new Date(to).toISOString()}::timestamptz`,
    ),
    sql` union all `,
  )

/** SQL: the figures of a group of rows, buckets ascending. */
const summed = sql`
  json_agg(bucket order by bucket) as buckets, json_agg(requests order by bucket) as counts,
  sum(requests)::float8 as requests, sum(request_bytes)::float8 as request_bytes,
  sum(response_bytes)::float8 as response_bytes, sum(sent)::float8 as sent`

/** SQL: merges rows with the same key and bucket. */
const byBucket = sql`sum(requests)::float8 as requests, sum(request_body_bytes) as request_bytes,
  sum(response_body_bytes) as response_bytes, sum(bytes_sent) as sent`

interface SummedRow extends Record<string, unknown> {
  key: string
  buckets: number[]
  counts: number[]
  requests: number
  request_bytes: number
  response_bytes: number
  sent: number
}

const figuresOf = (row: SummedRow): Figures => {
  const buckets = row.buckets.map((bucket, n) => ({ bucket, requests: row.counts[n] ?? 0 }))
  return {
    requests: row.requests,
    requestBodyBytes: row.request_bytes,
    responseBodyBytes: row.response_bytes,
    bytesSent: row.sent,
    p50Ms: percentileOf(buckets, 0.5),
    p95Ms: percentileOf(buckets, 0.95),
  }
}
const nothing: Figures = {
  requests: 0,
  requestBodyBytes: 0,
  responseBodyBytes: 0,
  bytesSent: 0,
  p50Ms: null,
  p95Ms: null,
}

/**
 * Summarizes the requests of an application: counts and bytes exactly, durations within 5 %. It reads only sums, so ten million
 * requests take as long as ten.
 *
 * The span is widened to whole minutes or hours, and cut to the retention: 48 hours by minute, 35 days by hour (wire.md
 * Extensions).
 */
export async function summarizeRequests(
  { db, now }: Pick<ObserveDeps, 'db' | 'now'>,
  applicationId: string,
  query: {
    from?: Date | undefined
    to?: Date | undefined
    interval?: Interval | undefined
    groupBy?: Exclude<SummaryDimension, 'total'> | undefined
  },
): Promise<RequestSummary> {
  const nowMs = now().getTime()
  const wantedTo = Math.min(query.to?.getTime() ?? nowMs, nowMs)
  const wantedFrom = query.from?.getTime() ?? wantedTo - DAY_MS
  const isShort = wantedFrom >= nowMs - MINUTES_KEPT_MS && wantedTo - wantedFrom <= BY_MINUTE_MS
  const interval = query.interval ?? (isShort ? 'minute' : 'hour')
  const begin = Math.max(wantedFrom, nowMs - (interval === 'minute' ? MINUTES_KEPT_MS : HOURS_KEPT_MS))
  // Beyond 48 hours there are no sums by minute to split an hour.
  const unit = begin >= nowMs - MINUTES_KEPT_MS ? MINUTE_MS : HOUR_MS
  const from = floor(begin, unit)
  const to = Math.max(from, ceil(wantedTo, unit))
  const segments = segmentsOf(from, to)

  const totals = db.execute<SummedRow>(sql`
    with total as (select bucket, ${byBucket} from (${rowsIn(applicationId, 'total', segments)}) r group by bucket)
    select '' as key, ${summed} from total having count(*) > 0`)
  const points = db.execute<SummedRow>(sql`
    with point as (
      select date_trunc(${interval}, at, 'UTC') as key, bucket, ${byBucket}
      from (${rowsIn(applicationId, 'total', segmentsOf(from, to, interval))}) r group by 1, 2
    )
    select key::text, ${summed} from point group by key order by point.key`)
  const groups = query.groupBy
    ? db.execute<SummedRow>(sql`
        with found as materialized (
          select value as key, bucket, ${byBucket} from (${rowsIn(applicationId, query.groupBy, segments)}) r group by 1, 2
        ),
        top as (select key, sum(requests) as total from found group by key order by total desc, key limit ${GROUPS_MAX})
        select key, ${summed} from found join top using (key) group by key, top.total order by top.total desc, key`)
    : []
  const [[total], series, grouped] = await Promise.all([totals, points, groups])
  return {
    from: new Date(from),
    to: new Date(to),
    interval,
    total: total ? figuresOf(total) : nothing,
    series: series.map((row) => ({ at: new Date(row.key), ...figuresOf(row) })),
    groups: grouped.map((row) => ({ value: row.key === '' ? null : row.key, ...figuresOf(row) })),
  }
}

/** Deletes sums beyond their retention, some thousands at a time. Safe to repeat. */
export async function discardSummaries({ db, now }: Pick<ObserveDeps, 'db' | 'now'>): Promise<void> {
  const nowMs = now().getTime()
  const kept = [
    [1, MINUTES_KEPT_MS + HOUR_MS],
    [60, HOURS_KEPT_MS + DAY_MS],
    [1_440, HOURS_KEPT_MS + DAY_MS],
  ] as const
  for (const [minutes, ms] of kept) {
    const over = and(eq(requestSummaries.minutes, minutes), lt(requestSummaries.at, new Date(nowMs - ms)))
    const discard = () =>
      inBatch(db, async (tx) => {
        const batch = tx
          .select({ place: sql`ctid` })
          .from(requestSummaries)
          .where(over)
          .limit(DISCARDED_AT_ONCE)
        const { count } = await tx.delete(requestSummaries).where(sql`ctid = any(array(${batch}))`)
        return count
      })
    while ((await discard()) === DISCARDED_AT_ONCE);
  }
}
