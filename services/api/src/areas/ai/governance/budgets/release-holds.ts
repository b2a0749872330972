import { arrayLiteral } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { type SQL, sql } from 'drizzle-orm'

/** Determines which budgets a call counts in. */
export interface UsageScope {
  organizationId: string
  applicationId: string | null
  userId: string | null
  /** True if the call uses the operator's key. */
  isByOperator: boolean
  startedAt: Date
}

/**
 * SQL: releases the holds of calls, if any, and locks every window that the calls count in, with either key. Selects the usage
 * events of the released holds, each at the full hold.
 *
 * scopes: of everything that the transaction is going to count.
 */
export function released(scopes: readonly Omit<UsageScope, 'isByOperator'>[], ids: readonly string[]): SQL {
  const calls = scopes.map(({ organizationId, applicationId, userId, startedAt }) => ({
    organization_id: organizationId,
    application_id: applicationId,
    user_id: userId,
    is_by_operator: true,
    started_at: startedAt,
  }))
  return sql`release_ai_holds(${JSON.stringify(calls)}::json, ${arrayLiteral(ids)}::uuid[])`
}

/** Runs `released`. Returns the events. */
export async function releaseHolds(
  tx: Pick<Db, 'execute'>,
  scopes: readonly Omit<UsageScope, 'isByOperator'>[],
  ids: readonly string[],
): Promise<Readonly<Record<string, unknown>>[]> {
  const rows = await tx.execute<{ event: Readonly<Record<string, unknown>> }>(
    sql`select event from ${released(scopes, ids)} as event`,
  )
  return rows.map(({ event }) => event)
}
