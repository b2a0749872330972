import { Conflict } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { DeployedCron } from './reach.ts'
import { createManualRun } from './runs.ts'
import { shownRun } from './shown-crons.ts'
import { cronRuns } from './table.ts'

/** Somebody waits for the answer, and an answer of the API takes 30 s at most. */
const PATIENCE_MS = 25_000

/**
 * Runs a cron now, of whichever deployment that answers. Resolves with the run once it has ended, or as it is after 25 s: it goes on.
 * Throws Conflict for a deployment that does not answer.
 */
export async function runCronNow(
  deps: Pick<Deps, 'db' | 'now' | 'crons'>,
  { cron, deployment: { status, retiredAt } }: DeployedCron,
): Promise<ReturnType<typeof shownRun>> {
  if (retiredAt !== null) throw new Conflict('The deployment was retired and answers no more')
  if (status !== 'ACTIVE') throw new Conflict(`The deployment is ${status}: only an ACTIVE one has crons that run`)
  const runId = await createManualRun(deps, cron.id)
  await deps.crons.dispatch(runId, AbortSignal.timeout(PATIENCE_MS))
  return shownRun(one(await deps.db.select().from(cronRuns).where(eq(cronRuns.id, runId))))
}
