import { Conflict } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { eq } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import type { DeployedCron } from './reach.ts'
import { createManualRun } from './runs.ts'
import { shownRun } from './shown-crons.ts'
import { cronRuns } from './table.ts'

/** The client waits for the answer, which the API must send within 30 s. */
const PATIENCE_MS = 25_000

/**
 * Runs a cron now, in any deployment that is still served. Resolves with the run once it has ended, or after 25 s with the run as
 * it is then; it continues. Throws Conflict for a deployment that is not served.
 */
export async function runCronNow(
  deps: Pick<EdgeDeps, 'db' | 'now' | 'crons'>,
  { cron, deployment: { status, retiredAt } }: DeployedCron,
): Promise<ReturnType<typeof shownRun>> {
  if (retiredAt !== null) throw new Conflict('The deployment was retired and answers no more')
  if (status !== 'ACTIVE') throw new Conflict(`The deployment is ${status}: only an ACTIVE one has crons that run`)
  const runId = await createManualRun(deps, cron.id)
  await deps.crons.dispatch(runId, AbortSignal.timeout(PATIENCE_MS))
  return shownRun(one(await deps.db.select().from(cronRuns).where(eq(cronRuns.id, runId))))
}
