import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, isNull, lt, lte, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { firstDayKept } from '../../observe/request-logs/days.ts'
import { isEnvironmentOfCron } from './due-crons.ts'
import { endRun, type RunEnd } from './end-run.ts'
import type { DueCron } from './queue.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'
import { cronRuns } from './table.ts'

/** How long a run may wait for an edge to accept it. */
const WAITING_MS = 60_000
/** How long an edge may be silent before its run counts as lost. */
const LEASE_MS = 30_000
/** A backlog older than this is skipped: the next run is due soon, or nobody expects this one any more. */
const LATE_MS = 600_000
const KEPT_MAX = 100

export type CronRun = typeof cronRuns.$inferSelect
type Writer = Pick<Db, 'select' | 'insert' | 'update' | 'delete'>
type Clocked = Pick<EdgeDeps, 'db' | 'now'>

const inMs = (time: Date, ms: number): Date => new Date(time.getTime() + ms)

/** Records a manual run, which waits for an edge. */
export async function createManualRun({ db, now }: Clocked, cronId: string): Promise<string> {
  const time = now()
  const id = newId()
  await db.insert(cronRuns).values({ id, cronId, trigger: 'manual', dueAt: time, leaseUntil: inMs(time, WAITING_MS) })
  return id
}

/**
 * Records the run of a due cron, in the transaction `tx`. Returns its id, or undefined if it must not be made: it was recorded
 * before, its deployment is no longer current, or it is over ten minutes late and was recorded as failed.
 */
export async function createDueRun(
  tx: Writer,
  time: Date,
  { cronId, slot, dueAt }: DueCron,
): Promise<string | undefined> {
  const [current] = await tx
    .select({ id: deploymentCrons.id })
    .from(deploymentCrons)
    .innerJoin(environments, isEnvironmentOfCron)
    .where(eq(deploymentCrons.id, cronId))
  if (!current) return undefined
  const [run] = await tx
    .insert(cronRuns)
    .values({ id: newId(), cronId, slot, trigger: 'schedule', dueAt, leaseUntil: inMs(time, WAITING_MS) })
    .onConflictDoNothing()
    .returning({ id: cronRuns.id })
  if (!run) return undefined
  if (time.getTime() - dueAt.getTime() <= LATE_MS) return run.id
  await endRun(tx, time, eq(cronRuns.id, run.id), { error: 'No worker had room for it within ten minutes' })
  return undefined
}

/** Claims a waiting run for one edge. Returns undefined if another edge has it or it has ended. */
export async function takeRun({ db, now }: Clocked, id: string, edgeId: string): Promise<CronRun | undefined> {
  const time = now()
  const [run] = await db
    .update(cronRuns)
    .set({ edgeId, startedAt: time, leaseUntil: inMs(time, LEASE_MS) })
    .where(and(eq(cronRuns.id, id), isNull(cronRuns.edgeId), isNull(cronRuns.completedAt)))
    .returning()
  return run
}

/** Renews the leases of an edge's runs. */
export async function renewRuns({ db, now }: Clocked, edgeId: string): Promise<void> {
  await db
    .update(cronRuns)
    .set({ leaseUntil: inMs(now(), LEASE_MS) })
    .where(and(eq(cronRuns.edgeId, edgeId), isNull(cronRuns.completedAt)))
}

/** Ends the run of an edge, and deletes all but the last hundred of its cron. */
export async function completeRun({ db, now }: Clocked, { id, cronId }: CronRun, end: RunEnd): Promise<void> {
  await endRun(db, now(), eq(cronRuns.id, id), end)
  const oldest = db
    .select({ id: cronRuns.id })
    .from(cronRuns)
    .where(eq(cronRuns.cronId, cronId))
    .orderBy(desc(cronRuns.id))
    .offset(KEPT_MAX)
    .limit(1)
  await db.delete(cronRuns).where(and(eq(cronRuns.cronId, cronId), lte(cronRuns.id, sql`(${oldest})`)))
}

/** Ends runs that no edge accepted, or whose edge fell silent. Safe to repeat, and in several processes at once. */
export async function sweepCronRuns({ db, now }: Clocked): Promise<void> {
  const time = now()
  await endRun(db, time, lt(cronRuns.leaseUntil, time), {
    error: sql`case when ${cronRuns.startedAt} is null then 'No edge took it up in time'
      else 'The edge that made the request fell silent' end`,
  })
}

/** Deletes runs older than any plan's log retention. Safe to repeat, and in several processes at once. */
export async function discardCronRuns(deps: Clocked): Promise<void> {
  await discardBefore(deps.db, cronRuns.dueAt, await firstDayKept(deps))
}
