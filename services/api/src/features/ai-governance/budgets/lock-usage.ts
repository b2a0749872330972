import { AI_USAGE_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { sql } from 'drizzle-orm'
import { aiBudgetWindows } from '../table.ts'
import type { BudgetWindow } from './windows.ts'

/** What decides which budgets a call counts in. */
export interface UsageScope {
  organizationId: string
  applicationId: string | null
  userId: string | null
  /** True if the call goes by the operator's key. */
  isByOperator: boolean
  startedAt: Date
}

/** The scopes of calls, as a statement reads them. */
const scopesOf = (scopes: readonly UsageScope[]) =>
  sql`json_to_recordset(${JSON.stringify(
    scopes.map(({ organizationId, applicationId, userId, isByOperator, startedAt }) => ({
      organization_id: organizationId,
      application_id: applicationId,
      user_id: userId,
      is_by_operator: isByOperator,
      started_at: startedAt,
    })),
  )}::json) as e(organization_id uuid, application_id uuid, user_id text, is_by_operator boolean, started_at timestamptz)`

/**
 * Locks the windows that calls count in, in the order that everybody keeps (migrations/0018), until the transaction ends. No window of
 * their organizations is made meanwhile. Returns them as they are now.
 */
export async function lockUsage(
  tx: Pick<Db, 'select' | 'execute'>,
  scopes: readonly UsageScope[],
): Promise<BudgetWindow[]> {
  const e = scopesOf(scopes)
  const [, windows] = await Promise.all([
    tx.execute(sql`select pg_advisory_xact_lock_shared(${AI_USAGE_LOCK_CLASS}, lock)
      from (select distinct ai_usage_lock(e.organization_id) as lock from ${e} order by 1) locks`),
    tx
      .select()
      .from(aiBudgetWindows)
      .where(
        sql`${aiBudgetWindows.id} in (select c.id from ${e}, ai_windows_of(e.organization_id, e.application_id, e.user_id, e.is_by_operator, e.started_at) c)`,
      )
      .orderBy(aiBudgetWindows.id)
      .for('no key update'),
  ])
  return windows
}
