import { PaymentRequired } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { firstIdAt } from '@platform/runtime/new-id'
import { monthOf } from '@platform/runtime/partitions'
import { and, eq, gte, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { billableMicrosSince } from '../../ai/governance/billable.ts'
import { quotasOf } from '../../tenancy/products/quotas.ts'
import { billingCaps, functionTime } from '../../tenancy/products/table.ts'
import { deployments } from './table.ts'

/** Price of a build minute beyond the included ones, in millionths of a US dollar. */
const BUILD_MINUTE_MICROS = 10_000
/** Price of an hour of Functions beyond the included ones, in millionths of a US dollar. */
const FUNCTION_HOUR_MICROS = 40_000
const HOUR_MS = 3_600_000

/**
 * Builds that end in a month were created in it or the month before: upload lasts a day at most, and the queue less than the
 * rest.
 */
const earliestOf = (month: Date): Date => new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() - 1, 1))

const asDollars = (micros: number): string => `$${(micros / 1_000_000).toFixed(2)}`

/** An organization's use of its included time in this UTC month, and its charges beyond that and for the operator's models. */
export interface Spending {
  buildMinutes: number
  buildMinutesIncluded: number
  /** Hours during which a Function had a request in progress, summed over its slots. */
  functionHours: number
  functionHoursIncluded: number
  /** In millionths of a US dollar; includes model calls made with the operator's keys. */
  spentMicros: number
  /** null: nothing beyond the included time may be used. */
  capMicros: number | null
}

/**
 * Reads an organization's usage since the start of the UTC month. Builds and model calls count when they end, requests of
 * Functions within seconds.
 */
export async function spendingOf(
  { db, now }: Pick<DeployDeps, 'db' | 'now'>,
  organizationId: string,
): Promise<Spending> {
  const month = monthOf(now())
  // Uses the index on ids, which rise with time, so builds of earlier months are not read.
  const isRecent = gte(deployments.id, firstIdAt(earliestOf(month)))
  const [used, busy, cap, quotas, aiMicros] = await Promise.all([
    db
      .select({
        minutes: sql<number>`coalesce(sum(extract(epoch from ${deployments.buildEndedAt} - ${deployments.buildStartedAt})) / 60, 0)::float8`,
      })
      .from(deployments)
      .where(and(eq(deployments.organizationId, organizationId), isRecent, gte(deployments.buildEndedAt, month))),
    db
      .select({ busyMs: functionTime.busyMs })
      .from(functionTime)
      .where(and(eq(functionTime.organizationId, organizationId), eq(functionTime.month, month))),
    db
      .select({ capMicros: billingCaps.capMicros })
      .from(billingCaps)
      .where(eq(billingCaps.organizationId, organizationId)),
    quotasOf({ db }, organizationId),
    billableMicrosSince({ db }, organizationId, month),
  ])
  const buildMinutes = one(used).minutes
  const functionHours = (busy[0]?.busyMs ?? 0) / HOUR_MS
  const { build_minutes_per_month: buildMinutesIncluded, function_hours_per_month: functionHoursIncluded } = quotas
  return {
    buildMinutes,
    buildMinutesIncluded,
    functionHours,
    functionHoursIncluded,
    spentMicros:
      aiMicros +
      Math.round(
        Math.max(0, buildMinutes - buildMinutesIncluded) * BUILD_MINUTE_MICROS +
          Math.max(0, functionHours - functionHoursIncluded) * FUNCTION_HOUR_MICROS,
      ),
    capMicros: cap[0]?.capMicros ?? null,
  }
}

/**
 * Refuses a deployment if its organization has reached its billing cap or, without one, has used up its included time (A §7,
 * D77). Active deployments keep running. Throws PaymentRequired.
 */
export async function requireBillable(deps: Pick<DeployDeps, 'db' | 'now'>, organizationId: string): Promise<void> {
  const { buildMinutes, buildMinutesIncluded, functionHours, functionHoursIncluded, spentMicros, capMicros } =
    await spendingOf(deps, organizationId)
  if (capMicros !== null && spentMicros >= capMicros)
    throw new PaymentRequired(
      `The organization has reached its billing cap (${asDollars(spentMicros)} of ${asDollars(capMicros)} this month). Raise the cap or wait for the next month.`,
    )
  if (capMicros === null && buildMinutes >= buildMinutesIncluded)
    throw new PaymentRequired(
      `The organization has used its included build minutes (${Math.floor(buildMinutes)} of ${buildMinutesIncluded} this month). Set a billing cap to go on, or wait for the next month.`,
    )
  if (capMicros === null && functionHours >= functionHoursIncluded)
    throw new PaymentRequired(
      `The organization has used its included Function hours (${Math.floor(functionHours)} of ${functionHoursIncluded} this month). Set a billing cap to go on, or wait for the next month.`,
    )
}
