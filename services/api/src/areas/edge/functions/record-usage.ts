import type { FunctionUsage } from '@platform/function-runtime/function-runtime'
import { monthOf } from '@platform/runtime/partitions'
import { sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { deploymentFunctions, deployments } from '../../deploy/deployments/table.ts'
import { functionTime } from '../../tenancy/products/table.ts'
import { functionSlots } from './table.ts'

/** Slots not reported for this long are gone along with their process. */
const LOST_AFTER_MS = 60_000

/**
 * Adds an edge's usage since its last report: cold starts and requests per Function, busy time to its organization's UTC month
 * (D77), and the current usage of its slots. All or nothing; after a failure the edge adds it to its next report. Ignores deleted
 * Functions.
 *
 * processId: the edge's id, constant for its lifetime.
 */
export async function recordFunctionUsage(
  { db, now }: Pick<EdgeDeps, 'db' | 'now'>,
  processId: string,
  usage: readonly FunctionUsage[],
): Promise<void> {
  if (usage.length === 0) return
  const time = now()
  const told = sql`jsonb_to_recordset(${JSON.stringify(usage)}::jsonb) as told(
    "functionId" uuid, slots integer, "memoryBytes" bigint, "coldStarts" bigint, requests bigint, "busyMs" double precision)`
  await db.transaction(async (tx) => {
    // Sorted by id, so that two edges cannot deadlock.
    await tx.execute(sql`with locked as materialized (
        select id from ${deploymentFunctions} where id in (select "functionId" from ${told}) order by id for no key update)
      update ${deploymentFunctions} f set cold_starts = f.cold_starts + did.cold_starts, requests = f.requests + did.requests
      from locked, (select "functionId" as id, sum("coldStarts") as cold_starts, sum(requests) as requests from ${told} group by 1) did
      where f.id = locked.id and did.id = f.id and (did.cold_starts > 0 or did.requests > 0)`)
    await tx.execute(sql`insert into ${functionTime} (organization_id, month, busy_ms)
      select d.organization_id, ${monthOf(time).toISOString()}::timestamptz, round(sum("busyMs"))
      from ${told} join ${deploymentFunctions} f on f.id = "functionId" join ${deployments} d on d.id = f.deployment_id
      group by 1 having sum("busyMs") > 0 order by 1
      on conflict (organization_id, month) do update set busy_ms = ${functionTime}.busy_ms + excluded.busy_ms`)
    await tx.execute(sql`insert into ${functionSlots} (function_id, process_id, slots, memory_bytes, seen_at)
      select f.id, ${processId}::uuid, sum(slots), sum("memoryBytes"), ${time.toISOString()}::timestamptz
      from ${told} join ${deploymentFunctions} f on f.id = "functionId" group by 1 order by 1
      on conflict (function_id, process_id) do update
        set slots = excluded.slots, memory_bytes = excluded.memory_bytes, seen_at = excluded.seen_at`)
  })
}

/** Deletes the slots of killed edges. Safe to repeat. */
export async function discardLostSlots({ db, now }: Pick<EdgeDeps, 'db' | 'now'>): Promise<void> {
  const before = new Date(now().getTime() - LOST_AFTER_MS)
  await db.execute(sql`delete from ${functionSlots} where (function_id, process_id) in (
    select function_id, process_id from ${functionSlots} where seen_at < ${before.toISOString()}::timestamptz
    order by 1, 2 for update skip locked)`)
}
