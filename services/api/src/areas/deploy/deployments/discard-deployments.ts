import { DISCARDED_AT_ONCE, inBatch } from '@platform/runtime/discard-rows'
import { and, asc, inArray, isNotNull, isNull, or, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { discardFunctionCredentials } from '../../credentials/api-keys/function-credential.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import { buildLogs, deployments, endedAt, isEnded } from './table.ts'

const DAY_MS = 86_400_000
const AT_ONCE = 100

type Transaction = Pick<DeployDeps['db'], 'select' | 'delete'>

/** Deletes some deployments, or only lines of their logs if those are more than fit into a transaction. */
async function discardSome(tx: Transaction, ids: readonly string[]): Promise<void> {
  const lines = tx
    .select({ place: sql`ctid` })
    .from(buildLogs)
    .where(inArray(buildLogs.deploymentId, [...ids]))
    .limit(DISCARDED_AT_ONCE)
  const { count } = await tx.delete(buildLogs).where(sql`ctid = any(array(${lines}))`)
  if (count === DISCARDED_AT_ONCE) return
  await tx.delete(hostnames).where(inArray(hostnames.deploymentId, [...ids]))
  await discardFunctionCredentials(tx, ids)
  await tx.delete(deployments).where(inArray(deployments.id, [...ids]))
}

/**
 * Deletes deployments that were retired or failed `keptDays` ago, oldest first, with their logs, Functions, crons, hostname and
 * credential; 0 keeps them (D125). Such a deployment is neither served nor pinned, and cannot be promoted. Its files went before:
 * where they are still there, it waits for `removeFiles`. One that is locked waits for the next run. Safe to repeat, and in several
 * processes at once.
 */
export async function discardDeployments({ db, now }: Pick<DeployDeps, 'db' | 'now'>, keptDays: number): Promise<void> {
  if (keptDays === 0) return
  const before = new Date(now().getTime() - keptDays * DAY_MS)
  const isOver = and(
    isEnded(deployments),
    sql`${endedAt(deployments)} < ${before.toISOString()}::timestamptz`,
    or(isNotNull(deployments.filesRemovedAt), isNull(deployments.output)),
  )
  for (;;) {
    const ids = await inBatch(db, async (tx) => {
      const next = await tx
        .select({ id: deployments.id })
        .from(deployments)
        .where(isOver)
        .orderBy(asc(endedAt(deployments)))
        .limit(AT_ONCE)
        .for('update', { skipLocked: true })
      const ended = next.map(({ id }) => id)
      if (ended.length > 0) await discardSome(tx, ended)
      return ended
    })
    if (ids === undefined || ids.length === 0) return
  }
}
