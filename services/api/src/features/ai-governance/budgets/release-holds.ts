import { arrayLiteral } from '@platform/runtime/batch-by-turn'
import type { Db } from '@platform/runtime/database'
import { sql } from 'drizzle-orm'
import { aiBudgetWindows, aiHolds } from '../table.ts'

/**
 * Gives back what calls hold, as far as they still do. Their windows were locked by `lockUsage` in the same transaction. Returns the
 * usage events of those that did, as if they had cost all of it.
 */
export async function releaseHolds(
  tx: Pick<Db, 'execute'>,
  ids: readonly string[],
): Promise<Readonly<Record<string, unknown>>[]> {
  if (ids.length === 0) return []
  const released = await tx.execute<{ event: Readonly<Record<string, unknown>> }>(sql`
    with gone as (delete from ${aiHolds} where id = any(${arrayLiteral(ids)}::uuid[]) returning *),
    released as (
      update ${aiBudgetWindows} w set held_cost_nanos = w.held_cost_nanos - d.cost, held_requests = w.held_requests - d.requests,
        held_tokens = w.held_tokens - d.tokens
      from (
        select c.id, sum(g.cost_nanos) as cost, count(*) as requests, sum(g.tokens) as tokens
        from gone g, ai_windows_of(g.organization_id, g.application_id, g.user_id, g.is_by_operator, g.started_at) c
        group by c.id
      ) d where d.id = w.id
    )
    select event from gone`)
  return released.map(({ event }) => event)
}
