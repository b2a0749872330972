import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { check, index, integer, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { deploymentCrons } from '../../deploy/deployments/table.ts'

/** A run of a cron: not started while it waits for an edge, not completed while it is running. */
export const cronRuns = pgTable(
  'cron_runs',
  {
    id: uuid().primaryKey(),
    cronId: uuid('cron_id')
      .notNull()
      .references(() => deploymentCrons.id, { onDelete: 'cascade' }),
    /**
     * A UUIDv8 of environment, schedule and path: a cron runs once a minute per environment, whichever deployment it is of. null:
     * run by hand.
     */
    slot: uuid(),
    trigger: text().$type<'schedule' | 'manual'>().notNull(),
    dueAt: instant('due_at').notNull(),
    startedAt: instant('started_at'),
    completedAt: instant('completed_at'),
    /** The process that makes the request, and the only one that may. */
    edgeId: uuid('edge_id'),
    /** When the owner must have renewed the lease. */
    leaseUntil: instant('lease_until').notNull(),
    /** Status of the response. */
    status: integer(),
    outcome: text().$type<'succeeded' | 'failed'>(),
    /** A sentence. */
    error: text(),
  },
  (t) => [
    unique('cron_runs_once').on(t.slot, t.dueAt),
    index('cron_runs_by_cron').on(t.cronId, t.id),
    index('cron_runs_by_age').on(t.dueAt),
    // Few rows at any time.
    index('cron_runs_under_way')
      .on(t.leaseUntil)
      .where(sql`${t.completedAt} is null`),
    check('cron_runs_trigger', sql`${t.trigger} in ('schedule', 'manual')`),
    check('cron_runs_slot', sql`(${t.trigger} = 'schedule') = (${t.slot} is not null)`),
    check('cron_runs_outcome', sql`${t.outcome} in ('succeeded', 'failed')`),
    check('cron_runs_end', sql`(${t.completedAt} is null) = (${t.outcome} is null)`),
  ],
)
