import { timeOfId } from '@platform/runtime/new-id'
import { rememberPartitions } from '@platform/runtime/partitions'
import { lte, sql } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import { aiHolds, aiUsageEvents } from '../table.ts'
import { releaseHolds } from './release-holds.ts'

const SWEPT_AT_ONCE = 100

/** SQL: columns that the sweep updates for a video, whose event already exists. */
const told = sql.raw(
  [
    'status',
    'status_code',
    'error_code',
    'error_type',
    'usage_source',
    'input_tokens',
    'output_tokens',
    'provider_cost_nanos',
    'billable_cost_nanos',
    'price_version',
    'counted_requests',
    'counted_tokens',
    'counted_cost_nanos',
    'completed_at',
    'updated_at',
  ]
    .map((name) => `${name} = excluded.${name}`)
    .join(', '),
)

/**
 * Settles calls whose process died, as if each had cost its full hold. If a process settles such a call later, nothing more is
 * counted. Safe to run in several processes.
 */
export async function sweepHolds({ db, now }: Pick<AiDeps, 'db' | 'now'>): Promise<void> {
  const withPartitions = rememberPartitions({ db }, 'ai_usage_events')
  const time = now()
  for (;;) {
    const { id, organizationId, applicationId, userId, startedAt } = aiHolds
    const expired = await db
      .select({ id, organizationId, applicationId, userId, startedAt })
      .from(aiHolds)
      .where(lte(aiHolds.expiresAt, time))
      .orderBy(aiHolds.expiresAt)
      .limit(SWEPT_AT_ONCE)
    if (expired.length === 0) return
    await withPartitions(
      expired.map((hold) => timeOfId(hold.id)),
      () =>
        db.transaction(async (tx) => {
          const events = await releaseHolds(
            tx,
            expired,
            expired.map((hold) => hold.id),
          )
          const ended = events.map((event) => ({ ...event, completed_at: time, updated_at: time }))
          await tx.execute(sql`insert into ${aiUsageEvents}
            select * from json_populate_recordset(null::${aiUsageEvents}, ${JSON.stringify(ended)}::json)
            on conflict (id) do update set ${told} where ${aiUsageEvents.status} = 'pending'`)
        }),
    )
    if (expired.length < SWEPT_AT_ONCE) return
  }
}
