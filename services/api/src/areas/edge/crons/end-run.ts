import type { Db } from '@platform/runtime/database'
import { and, isNull, type SQL } from 'drizzle-orm'
import { cronRuns } from './table.ts'

/** How a run ended: the status of the response if there was one, and a sentence if it failed. */
export interface RunEnd {
  status?: number
  error?: string
}

/** Ends the runs that match a condition and have not ended. Safe to repeat. */
export async function endRun(
  tx: Pick<Db, 'update'>,
  time: Date,
  which: SQL | undefined,
  { status, error }: { status?: number; error?: string | SQL },
): Promise<void> {
  await tx
    .update(cronRuns)
    .set({ completedAt: time, status, outcome: error === undefined ? 'succeeded' : 'failed', error })
    .where(and(which, isNull(cronRuns.completedAt)))
}
