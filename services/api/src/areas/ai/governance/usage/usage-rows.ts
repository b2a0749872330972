import type { Db } from '@platform/runtime/database'
import { firstIdAt } from '@platform/runtime/new-id'
import { oldestPeriod } from '@platform/runtime/partitions'
import { type SQL, sql } from 'drizzle-orm'
import { aiUsageEvents, aiUsageSums } from '../table.ts'
import type { Segment } from './spans.ts'

/** Returns the start of the oldest month whose events are kept, in milliseconds; sums go back further (D125). */
export const firstEventMs = async ({ db }: { db: Db }): Promise<number> =>
  (await oldestPeriod({ db }, 'ai_usage_events'))?.getTime() ?? 0

/** In events stored by earlier releases, the time in the id is close to their start but not equal. */
export const SLACK_MS = 1_000

export const statuses = ['pending', 'success', 'error', 'cancelled'] as const
export type EventStatus = (typeof statuses)[number]

/** Filters of usage besides its time. */
export interface UsageFilters {
  organizationId: string
  applicationId?: string | undefined
  /** Only calls by this user. */
  userId?: string | undefined
  /** As served; `unknown` if none was. */
  model?: string | undefined
  provider?: string | undefined
  status?: EventStatus | undefined
  requestId?: string | undefined
  callerEndUserId?: string | undefined
}

const instantOf = (ms: number): SQL => sql`${new Date(ms).toISOString()}::timestamptz`

const and = (conditions: readonly (SQL | false)[]): SQL =>
  sql.join(
    conditions.filter((condition) => condition !== false),
    sql` and `,
  )

/** True for filters that only events can answer: sums count calls by status, but not tokens and costs by status. */
export const needsEvents = ({ status, requestId, callerEndUserId }: UsageFilters): boolean =>
  status !== undefined || requestId !== undefined || callerEndUserId !== undefined

/** SQL: the filters for which sums have columns. */
const sumsPassing = ({ organizationId, applicationId, userId, model, provider }: UsageFilters): SQL =>
  and([
    sql`organization_id = ${organizationId}::uuid`,
    applicationId !== undefined && sql`application_id = ${applicationId}::uuid`,
    userId !== undefined && sql`user_id = ${userId}`,
    model !== undefined && sql`model = ${model}`,
    provider !== undefined && sql`provider = ${provider}`,
  ])

/** SQL: all filters, for events. */
export function eventsPassing({ requestId, callerEndUserId, status, ...filters }: UsageFilters): SQL {
  const { organizationId, applicationId, userId, model, provider } = filters
  return and([
    sql`organization_id = ${organizationId}::uuid`,
    applicationId !== undefined && sql`application_id = ${applicationId}::uuid`,
    userId !== undefined && sql`authenticated_user_id = ${userId}`,
    model !== undefined && sql`coalesce(model_served, 'unknown') = ${model}`,
    provider !== undefined && sql`coalesce(provider, 'unknown') = ${provider}`,
    status !== undefined && sql`status = ${status}`,
    requestId !== undefined && sql`id = ${requestId}::uuid`,
    callerEndUserId !== undefined && sql`caller_end_user_id = ${callerEndUserId}`,
  ])
}

/** Returns the lowest id of a time; there are none before 1970. */
export const idAt = (ms: number): string => firstIdAt(new Date(Math.max(0, ms)))

/** SQL: events that started in a span, using the index on ids. */
export const startedIn = ({ from, to }: { from: number; to: number }): SQL => sql`
  id >= ${idAt(from - SLACK_MS)}::uuid and id < ${idAt(to + SLACK_MS)}::uuid
  and started_at >= ${instantOf(from)} and started_at < ${instantOf(to)}`

/** SQL: the number of requests in a sum with each status. */
const counted: Record<EventStatus, SQL> = {
  pending: sql.raw('requests - successes - errors - cancelled'),
  success: sql.raw('successes'),
  error: sql.raw('errors'),
  cancelled: sql.raw('cancelled'),
}

/** SQL: the number of requests in a sum that match a status filter. */
export const requestsOf = (status: EventStatus | undefined): SQL =>
  status === undefined ? sql.raw('requests') : counted[status]

const partOf = (segment: Segment, filters: UsageFilters): SQL =>
  segment.of === 'events'
    ? sql`
      select started_at as at, authenticated_user_id as user_id, coalesce(model_served, 'unknown') as model,
        coalesce(provider, 'unknown') as provider, 1 as requests, (status = 'success')::int as successes,
        (status = 'error')::int as errors, (status = 'cancelled')::int as cancelled,
        input_tokens + cache_read_tokens + cache_write_tokens + input_audio_tokens as input_tokens,
        output_tokens + reasoning_tokens + output_audio_tokens as output_tokens, latency_ms, billable_cost_nanos
      from ${aiUsageEvents} where ${eventsPassing(filters)} and ${startedIn(segment)}`
    : sql`
      select at, user_id, model, provider, requests, successes, errors, cancelled, input_tokens, output_tokens, latency_ms,
        billable_cost_nanos
      from ${aiUsageSums} where ${sumsPassing(filters)} and span = ${segment.of}
        and at >= ${instantOf(segment.from)} and at < ${instantOf(segment.to)}`

/**
 * SQL: the usage of some segments, as rows with `at`, `user_id`, `model`, `provider` and figures that add up. Sums are filtered by
 * their columns alone, and hold all statuses: `requestsOf` counts one.
 */
export function usageIn(segments: readonly Segment[], filters: UsageFilters): SQL {
  const parts = segments.length > 0 ? segments : [{ of: 'hour' as const, from: 0, to: 0 }]
  return sql.join(
    parts.map((segment) => partOf(segment, filters)),
    sql` union all `,
  )
}
