import { AI_USAGE_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { dayOf, monthOf } from '@platform/runtime/partitions'
import { and, inArray, sql } from 'drizzle-orm'
import { aiBudgetWindows, aiHolds, aiUsageSums, type Period } from '../table.ts'

const DAY_MS = 86_400_000
/** Longer than a month, and than any call. */
const KEPT_MS = 70 * DAY_MS

/** The usage that a budget limits, and its period. */
export interface BudgetTarget {
  organizationId: string
  /** null: all applications, and calls without one. */
  applicationId: string | null
  /** null: all users. */
  userId: string | null
  period: Period
  /** True for the operator's free allowance, in which only calls with the operator's key count. */
  isAllowance: boolean
}

export type BudgetWindow = typeof aiBudgetWindows.$inferSelect

/** Returns the start and end of the UTC day or month that contains `time`. */
export function windowAt(period: Period, time: Date): { startsAt: Date; endsAt: Date } {
  if (period === 'day') {
    const startsAt = dayOf(time)
    return { startsAt, endsAt: new Date(startsAt.getTime() + DAY_MS) }
  }
  return { startsAt: monthOf(time), endsAt: new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)) }
}

/**
 * Creates the windows of targets at a time unless they exist: the spent amount comes from usage, the held amount from the holds of
 * calls in progress. All targets belong to one organization. Safe to repeat.
 */
export async function openWindows({ db }: { db: Db }, targets: readonly BudgetTarget[], time: Date): Promise<void> {
  const [first] = targets
  if (!first) return
  const rows = targets.map(({ organizationId, applicationId, userId, period, isAllowance }) => ({
    organization_id: organizationId,
    application_id: applicationId,
    user_id: userId,
    period,
    is_allowance: isAllowance,
    starts_at: windowAt(period, time).startsAt,
    ends_at: windowAt(period, time).endsAt,
  }))
  await db.transaction(async (tx) => {
    // Transactions that count usage or holds of this organization share this lock until they commit, so the next read is complete.
    await tx.execute(sql`select pg_advisory_xact_lock(${AI_USAGE_LOCK_CLASS}, ai_usage_lock(${first.organizationId}))`)
    await tx.execute(sql`
      insert into ${aiBudgetWindows} (organization_id, is_allowance, application_id, user_id, period, starts_at, spent_cost_nanos,
        spent_requests, spent_tokens, held_cost_nanos, held_requests, held_tokens)
      select t.organization_id, t.is_allowance, t.application_id, t.user_id, t.period, t.starts_at, s.cost, s.requests, s.tokens,
        h.cost, h.requests, h.tokens
      from json_to_recordset(${JSON.stringify(rows)}::json) as t(organization_id uuid, is_allowance boolean, application_id uuid,
          user_id text, period text, starts_at timestamptz, ends_at timestamptz),
        lateral (
          select coalesce(sum(counted_cost_nanos), 0) as cost, coalesce(sum(counted_requests), 0) as requests,
            coalesce(sum(counted_tokens), 0) as tokens
          from ${aiUsageSums} u
          where u.organization_id = t.organization_id and u.span = 'day' and u.at >= t.starts_at and u.at < t.ends_at
            and (t.application_id is null or u.application_id = t.application_id)
            and (t.user_id is null or u.user_id = t.user_id) and (not t.is_allowance or u.is_by_operator)
        ) s,
        lateral (
          select coalesce(sum(cost_nanos), 0) as cost, count(*) as requests, coalesce(sum(tokens), 0) as tokens
          from ${aiHolds} c
          where c.organization_id = t.organization_id and c.started_at >= t.starts_at and c.started_at < t.ends_at
            and (t.application_id is null or c.application_id = t.application_id)
            and (t.user_id is null or c.user_id = t.user_id) and (not t.is_allowance or c.is_by_operator)
        ) h
      on conflict on constraint ai_budget_windows_key do nothing`)
  })
}

/** Returns a name for a target, unique within its organization. */
export const targetName = ({
  applicationId,
  userId,
  period,
  isAllowance,
}: Omit<BudgetTarget, 'organizationId'>): string => JSON.stringify([applicationId, userId, period, isAllowance])

/** Returns an organization's windows at a time, by `targetName`. */
export async function findWindows(
  { db }: { db: Db },
  organizationId: string,
  time: Date,
): Promise<Map<string, BudgetWindow>> {
  const rows = await db
    .select()
    .from(aiBudgetWindows)
    .where(
      and(
        sql`${aiBudgetWindows.organizationId} = ${organizationId}`,
        inArray(aiBudgetWindows.startsAt, [dayOf(time), monthOf(time)]),
      ),
    )
  // On the first of a month both kinds of windows begin at once; the period distinguishes them.
  return new Map(
    rows
      .filter(({ period, startsAt }) => startsAt.getTime() === windowAt(period, time).startsAt.getTime())
      .map((row) => [targetName(row), row]),
  )
}

/** Deletes windows that ended more than a month ago. The sums of usage still contain what was spent in them. */
export async function discardWindows({ db, now }: { db: Db; now: () => Date }): Promise<void> {
  await discardBefore(db, aiBudgetWindows.startsAt, new Date(now().getTime() - KEPT_MS))
}
