import { and, asc, eq, gt, isNull, lt, or, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import { endFunctionCredential } from '../../credentials/api-keys/function-credential.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { deployments } from './table.ts'

const DAY_MS = 86_400_000
/** Minimum time that a deployment is kept, by environment. */
const KEPT_MS = { production: 30 * DAY_MS, preview: 7 * DAY_MS }
/** The newest deployments of each environment, kept whatever their age. */
const NEWEST_KEPT = 10
const AT_ONCE = 500
const BATCHES_A_ROUND = 20

type RetireDeps = Pick<DeployDeps, 'db' | 'now'>

/**
 * Retires one deployment, unless it was promoted or pinned since it was selected. Promoting and pinning take the same row lock.
 */
export async function retireDeployment({ db, now }: RetireDeps, id: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    const time = now()
    const [row] = await tx
      .select()
      .from(deployments)
      .where(and(eq(deployments.id, id), eq(deployments.status, 'ACTIVE'), isNull(deployments.retiredAt)))
      .for('update')
    if (!row || (row.pinnedUntil && row.pinnedUntil >= time)) return false
    // A statement of its own, so that it sees promotions that happened while we waited for the lock.
    const isCurrent = await tx.$count(environments, eq(environments.currentDeploymentId, id))
    if (isCurrent > 0) return false
    await tx
      .update(deployments)
      .set({ retiredAt: time, sealedVariables: null, updatedAt: time })
      .where(eq(deployments.id, id))
    await endFunctionCredential(tx, time, id)
    await recordActivity(tx, time, {
      applicationId: row.applicationId,
      type: 'deployment.retired',
      by: { kind: 'platform' },
      subject: { type: 'deployment', id, label: row.label, environmentId: row.environmentId },
    })
    return true
  })
}

/**
 * Creates the job that retires unused deployments: not current, not pinned, not among the newest ten of their environment, and
 * older than 30 days, in preview 7 (D83). Their variables and credential are removed at once, their files an hour later. A round
 * checks 10,000; the next continues after them. Safe to repeat, and in several processes at once.
 */
export function openRetirement(): (deps: RetireDeps) => Promise<void> {
  let after = '00000000-0000-0000-0000-000000000000'
  return async (deps) => {
    const { db, now } = deps
    const nowMs = now().getTime()
    for (let batch = 0; batch < BATCHES_A_ROUND; batch++) {
      const rows = await db
        .select({
          id: deployments.id,
          isOver: sql<boolean>`${and(
            sql`${environments.currentDeploymentId} is distinct from ${deployments.id}`,
            or(isNull(deployments.pinnedUntil), lt(deployments.pinnedUntil, new Date(nowMs))),
            sql`${deployments.createdAt} < case ${environments.slug}
              when 'production' then ${new Date(nowMs - KEPT_MS.production).toISOString()}::timestamptz
              else ${new Date(nowMs - KEPT_MS.preview).toISOString()}::timestamptz end`,
            sql`(select count(*) from (select from ${deployments} n where n.environment_id = ${deployments.environmentId}
              and n.status = 'ACTIVE' and n.retired_at is null and n.seq > ${deployments.seq} limit ${NEWEST_KEPT}) newer)
              = ${NEWEST_KEPT}`,
          )}`,
        })
        .from(deployments)
        .innerJoin(environments, eq(environments.id, deployments.environmentId))
        .where(and(eq(deployments.status, 'ACTIVE'), isNull(deployments.retiredAt), gt(deployments.id, after)))
        .orderBy(asc(deployments.id))
        .limit(AT_ONCE)
      for (const { id, isOver } of rows) if (isOver) await retireDeployment(deps, id)
      const last = rows.length < AT_ONCE ? undefined : rows.at(-1)
      after = last?.id ?? '00000000-0000-0000-0000-000000000000'
      if (!last) return
    }
  }
}
