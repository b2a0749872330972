import { minuteOf } from '@platform/build-output/cron-schedule'
import { and, asc, desc, eq, lt, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import type { Deployment } from '../../deploy/deployments/reach.ts'
import { asWholeSet, type KeysetPage } from '../../../http/pages.ts'
import { scheduleOf } from './due-crons.ts'
import type { CronRun } from './runs.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'
import { cronRuns } from './table.ts'

type ShownRun = Pick<
  CronRun,
  'id' | 'trigger' | 'dueAt' | 'startedAt' | 'completedAt' | 'status' | 'outcome' | 'error'
> & { durationMs: number | null }

/** A run as the API shows it. */
export function shownRun({ startedAt, completedAt, ...run }: CronRun): ShownRun {
  const durationMs = startedAt && completedAt ? completedAt.getTime() - startedAt.getTime() : null
  return { ...run, startedAt, completedAt, durationMs }
}

interface ShownCron {
  id: string
  path: string
  schedule: string
  isActive: boolean
  nextRunAt: Date | null
  lastRun: ShownRun | null
}

/** All crons of a deployment, in the order of its output. */
export async function listCrons(
  { db, now }: Pick<EdgeDeps, 'db' | 'now'>,
  { id: deploymentId, environment, isCurrent }: Deployment,
): Promise<{ items: ShownCron[]; total: number }> {
  const isActive = environment === 'production' && isCurrent
  const last = db
    .select()
    .from(cronRuns)
    .where(eq(cronRuns.cronId, deploymentCrons.id))
    .orderBy(desc(cronRuns.id))
    .limit(1)
    .as('last')
  const rows = await db
    .select()
    .from(deploymentCrons)
    .leftJoinLateral(last, sql`true`)
    .where(eq(deploymentCrons.deploymentId, deploymentId))
    .orderBy(asc(deploymentCrons.n))
  const items = rows.map(async ({ deployment_crons: { id, path, schedule }, last: run }) => ({
    id,
    path,
    schedule,
    isActive,
    nextRunAt: isActive ? (await scheduleOf(schedule)).next(minuteOf(now())) : null,
    lastRun: run && shownRun(run),
  }))
  return asWholeSet(await Promise.all(items))
}

/** A page of the runs of a cron, newest first (D30). */
export async function cronRunsPage(
  { db }: Pick<EdgeDeps, 'db'>,
  cronId: string,
  { from, limit }: KeysetPage,
): Promise<{ items: ShownRun[]; total: number }> {
  const mine = eq(cronRuns.cronId, cronId)
  const [rows, total] = await Promise.all([
    db
      .select()
      .from(cronRuns)
      .where(and(mine, from === undefined ? undefined : lt(cronRuns.id, from)))
      .orderBy(desc(cronRuns.id))
      .limit(limit),
    db.$count(cronRuns, mine),
  ])
  return { items: rows.map(shownRun), total }
}
