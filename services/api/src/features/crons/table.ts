import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { check, index, integer, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { deployments, pathText } from '../deployments/table.ts'

/** What a deployment asks to be run by the clock: a row for each of its output's `crons`. */
export const deploymentCrons = pgTable(
  'deployment_crons',
  {
    /** A UUIDv8 of deployment, schedule and path. */
    id: uuid().primaryKey(),
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    /** In the order of the output, from 0. */
    n: integer().notNull(),
    /** With its query. */
    path: pathText('path').notNull(),
    schedule: text().notNull(),
  },
  (t) => [unique('deployment_crons_order').on(t.deploymentId, t.n)],
)

/** A run of a cron: one that waits for an edge has not started, one that goes on has not completed. */
export const cronRuns = pgTable(
  'cron_runs',
  {
    id: uuid().primaryKey(),
    cronId: uuid('cron_id')
      .notNull()
      .references(() => deploymentCrons.id, { onDelete: 'cascade' }),
    /** What its environment runs once a minute, whichever deployment that is of: a UUIDv8 of environment, schedule and path. null: run by hand. */
    slot: uuid(),
    trigger: text().$type<'schedule' | 'manual'>().notNull(),
    dueAt: instant('due_at').notNull(),
    startedAt: instant('started_at'),
    completedAt: instant('completed_at'),
    /** The process that makes the request; nobody else may. */
    edgeId: uuid('edge_id'),
    /** Until when whoever has it need not renew. */
    leaseUntil: instant('lease_until').notNull(),
    /** Of the answer. */
    status: integer(),
    outcome: text().$type<'succeeded' | 'failed'>(),
    /** A sentence. */
    error: text(),
  },
  (t) => [
    unique('cron_runs_once').on(t.slot, t.dueAt),
    index('cron_runs_by_cron').on(t.cronId, t.id),
    index('cron_runs_by_age').on(t.dueAt),
    // Few at any time.
    index('cron_runs_under_way')
      .on(t.leaseUntil)
      .where(sql`${t.completedAt} is null`),
    check('cron_runs_trigger', sql`${t.trigger} in ('schedule', 'manual')`),
    check('cron_runs_slot', sql`(${t.trigger} = 'schedule') = (${t.slot} is not null)`),
    check('cron_runs_outcome', sql`${t.outcome} in ('succeeded', 'failed')`),
    check('cron_runs_end', sql`(${t.completedAt} is null) = (${t.outcome} is null)`),
  ],
)
