import { BadRequest } from '@platform/errors/api-error'
import { sql } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import { beginningsOf, endOfDay, type Range, segmentsOf, wholeHoursBefore } from './spans.ts'
import { countEvents } from './find-events.ts'
import { firstEventMs, needsEvents, requestsOf, type UsageFilters, usageIn } from './usage-rows.ts'

const DAY_MS = 86_400_000
const SPAN_MS_DEFAULT = 30 * DAY_MS
const ROWS_MAX = 100
const POINTS_MAX = 2_500
/** Maximum number of events that one summary reads, which takes Postgres about two seconds. */
const EVENTS_MAX = 1_000_000
/** The label for everything beyond the first hundred. */
const OTHER = 'other'
/** The label for calls by keys and Functions. */
const NO_USER = 'none'

interface BreakdownRow {
  label: string
  requests: number
  tokens: number
  inputTokens: number
  outputTokens: number
  costMicros: number
}

interface Figures {
  requestCount: number
  successCount: number
  errorCount: number
  inputTokens: number
  outputTokens: number
  totalTokens: number
  billableCostMicros: number
}

interface UsageSummary {
  summary: Figures & { avgLatencyMs: number }
  byModel: BreakdownRow[]
  byProvider: BreakdownRow[]
  byUser: BreakdownRow[]
  /** Every hour or day of the span, oldest first. The span may cut the first and the last. */
  series: (Figures & { at: Date })[]
}

interface SummedRow extends Record<string, unknown> {
  requests: number
  successes: number
  errors: number
  input: number
  output: number
  latency: number
  /** Rounded up once, over the whole sum. */
  micros: number
}

/** SQL: figures as JavaScript numbers; such sums are exact up to nine quadrillion. */
const summed = sql`
  coalesce(sum(requests), 0)::float8 as requests, coalesce(sum(successes), 0)::float8 as successes,
  coalesce(sum(errors), 0)::float8 as errors, coalesce(sum(input_tokens), 0)::float8 as input,
  coalesce(sum(output_tokens), 0)::float8 as output, coalesce(sum(latency_ms), 0)::float8 as latency,
  coalesce(ceil(sum(billable_cost_nanos) / 1000.0), 0)::float8 as micros`

const figuresOf = (row: SummedRow | undefined): Figures => {
  const { requests = 0, successes = 0, errors = 0, input = 0, output = 0, micros = 0 } = row ?? {}
  return {
    requestCount: requests,
    successCount: successes,
    errorCount: errors,
    inputTokens: input,
    outputTokens: output,
    totalTokens: input + output,
    billableCostMicros: micros,
  }
}

/** Values of `grouping(model, provider, user_id)` by kind of row: a bit for each column that it is not grouped by. */
const kinds = { all: 7, byModel: 3, byProvider: 5, byUser: 6 } as const

/** Throws BadRequest if the events of a span are too many to be read, or if some of them are no longer kept. */
async function requireReadable(
  deps: Pick<AiDeps, 'db' | 'now'>,
  filters: UsageFilters,
  range: Range,
  firstMs: number,
): Promise<void> {
  const only = 'With status, requestId or callerEndUserId'
  if (range.from < firstMs) {
    const past = wholeHoursBefore(firstMs, { from: range.from, to: Math.min(range.to, firstMs) })
    const [deleted] = await deps.db.execute<{ count: number }>(sql`
      select coalesce(sum(${requestsOf(filters.status)}), 0)::float8 as count from (${usageIn(segmentsOf(past), filters)}) used`)
    if (deleted && deleted.count > 0)
      throw new BadRequest(
        `${only}, the period cannot begin before ${new Date(firstMs).toISOString()}: older calls are deleted`,
      )
  }
  const span = { from: new Date(range.from), to: new Date(range.to) }
  if ((await countEvents(deps, { ...filters, ...span })) > EVENTS_MAX)
    throw new BadRequest(`${only}, a summary holds at most ${EVENTS_MAX} calls: narrow the period`)
}

/**
 * Sums up the usage of an organization: exact at both ends, yet reading only its sums by day and hour and less than two hours of
 * events. Where the events of a cut hour are no longer kept, that hour counts as a whole. With filters that sums cannot answer, it
 * reads up to a million events.
 *
 * from, to: `from ≤ startedAt < to`; the last 30 days by default. Throws BadRequest for a span with too many intervals, too many
 * events to read, or events to read that are no longer kept.
 */
export async function summarizeUsage(
  deps: Pick<AiDeps, 'db' | 'now'>,
  filters: UsageFilters,
  span: { from?: Date | undefined; to?: Date | undefined; interval: 'hour' | 'day' },
): Promise<UsageSummary> {
  const { db, now } = deps
  const time = now()
  // Nothing has started later, so the current day counts as whole.
  const to = span.to?.getTime() ?? endOfDay(time)
  // There are no events before 1970, and no year 0 in Postgres.
  const from = span.from?.getTime() ?? Math.max(0, Math.min(to, time.getTime()) - SPAN_MS_DEFAULT)
  const isOfEvents = needsEvents(filters)
  const firstMs = await firstEventMs({ db })
  const range = isOfEvents ? { from, to } : wholeHoursBefore(firstMs, { from, to })
  const points = beginningsOf({ from, to: Math.min(to, Math.max(from, time.getTime())) }, span.interval)
  if (points.length > POINTS_MAX)
    throw new BadRequest(`The span has more than ${POINTS_MAX} intervals: ask for days, or for less time`)
  if (isOfEvents) await requireReadable(deps, filters, range, firstMs)
  const segments = (largest: 'day' | 'hour') => segmentsOf(range, isOfEvents ? 'events' : largest)
  const groups = db.execute<SummedRow & { kind: number; isOther: boolean; label: string | null }>(sql`
    with used as materialized (${usageIn(segments('day'), filters)}),
    grouped as (
      select grouping(model, provider, user_id) as kind, coalesce(model, provider, user_id) as label, sum(requests) as requests,
        sum(successes) as successes, sum(errors) as errors, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
        sum(latency_ms) as latency_ms, sum(billable_cost_nanos) as billable_cost_nanos
      from used group by grouping sets ((), (model), (provider), (user_id))
    ),
    ranked as (
      select *, row_number() over (partition by kind order by billable_cost_nanos desc, requests desc, label) as place from grouped
    )
    select kind, place > ${ROWS_MAX} as "isOther", case when place <= ${ROWS_MAX} then label end as label, ${summed}
    from ranked group by 1, 2, 3 order by min(place)`)
  const series = db.execute<SummedRow & { at: string }>(sql`
    select extract(epoch from date_trunc(${span.interval}, at, 'UTC'))::float8 * 1000 as at, ${summed}
    from (${usageIn(segments(span.interval), filters)}) used group by 1`)
  const [rows, told] = await Promise.all([groups, series])
  const breakdown = (kind: number): BreakdownRow[] =>
    rows
      .filter((row) => row.kind === kind && row.requests > 0)
      .map((row) => ({
        label: row.isOther ? OTHER : (row.label ?? NO_USER),
        requests: row.requests,
        tokens: row.input + row.output,
        inputTokens: row.input,
        outputTokens: row.output,
        costMicros: row.micros,
      }))
  const total = rows.find(({ kind }) => kind === kinds.all)
  const byTime = new Map(told.map((row) => [Number(row.at), row]))
  return {
    summary: {
      ...figuresOf(total),
      avgLatencyMs: total && total.requests > 0 ? Math.round(total.latency / total.requests) : 0,
    },
    byModel: breakdown(kinds.byModel),
    byProvider: breakdown(kinds.byProvider),
    byUser: breakdown(kinds.byUser),
    series: points.map((begin) => ({ at: new Date(begin), ...figuresOf(byTime.get(begin)) })),
  }
}
