import { AI_USAGE_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { dayOf, monthOf } from '@platform/runtime/partitions'
import { and, inArray, sql } from 'drizzle-orm'
import { aiBudgetWindows, aiHolds, aiUsageSums, type Period } from '../table.ts'

const DAY_MS = 86_400_000
/** Longer than a month and than any call. */
const KEPT_MS = 70 * DAY_MS

/** Whose usage a budget limits, and over what time. */
export interface BudgetTarget {
  organizationId: string
  /** null: of all applications, and of none. */
  applicationId: string | null
  /** null: of everybody. */
  userId: string | null
  period: Period
  /** True of the operator's free allowance, in which calls by the operator's key alone count. */
  isAllowance: boolean
}

export type BudgetWindow = typeof aiBudgetWindows.$inferSelect

/** When the UTC day or month of a moment begins and ends. */
export function windowAt(period: Period, time: Date): { startsAt: Date; endsAt: Date } {
  if (period === 'day') {
    const startsAt = dayOf(time)
    return { startsAt, endsAt: new Date(startsAt.getTime() + DAY_MS) }
  }
  return { startsAt: monthOf(time), endsAt: new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)) }
}

/**
 * Makes the windows that targets have at a moment, unless they are there: what was spent comes from usage, what is held from the
 * holds of calls under way. All targets are of one organization. Safe to repeat.
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
    // Whoever counts usage or holds of this organization has it shared until that is committed, so what is read next is all there is.
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

/** Names a target within its organization. */
export const targetName = ({
  applicationId,
  userId,
  period,
  isAllowance,
}: Omit<BudgetTarget, 'organizationId'>): string => JSON.stringify([applicationId, userId, period, isAllowance])

/** The windows of a moment that an organization has, by `targetName`. */
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
  // On the first of a month both begin at once; the period tells them apart.
  return new Map(
    rows
      .filter(({ period, startsAt }) => startsAt.getTime() === windowAt(period, time).startsAt.getTime())
      .map((row) => [targetName(row), row]),
  )
}

/** Forgets windows that ended more than a month ago. What was spent in them stays in the sums of usage. */
export async function discardWindows({ db, now }: { db: Db; now: () => Date }): Promise<void> {
  await discardBefore(db, aiBudgetWindows.startsAt, new Date(now().getTime() - KEPT_MS))
}
