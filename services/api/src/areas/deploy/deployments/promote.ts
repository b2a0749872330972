import { Conflict } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { eq, sql } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { DeployDeps } from '../deps.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { type Deployment, lockDeployment } from './reach.ts'
import { shownDeployment, type ShownDeployment } from './shown-deployment.ts'
import { failDeployment } from './transitions.ts'

/** The client waits for the answer. */
const WARM_MS = 2_000

type ShownDeps = Pick<DeployDeps, 'db' | 'now' | 'appsUrl'>

/**
 * Makes an ACTIVE deployment current in its environment: a rollback, or its reversal. Nothing is built. It gets a new sequence
 * number, so that deployments still being built do not replace it; one created later does. Safe to repeat. Before the switch its
 * Functions are started on the edges that run its predecessor's, which takes 2 s at most.
 *
 * Throws Conflict if it is not ACTIVE or was retired. The row is locked before this check, so that it cannot be retired meanwhile
 * (D83).
 */
export async function promoteDeployment(
  deps: ShownDeps & Pick<DeployDeps, 'trials'>,
  by: Actor,
  deployment: Deployment,
): Promise<ShownDeployment> {
  const { id, applicationId, environmentId, label, status, retiredAt } = deployment
  if (status === 'ACTIVE' && retiredAt === null) await deps.trials.warm({ environmentId, deploymentId: id }, WARM_MS)
  return deps.db.transaction(async (tx) => {
    const row = await lockDeployment(tx, id)
    if (row.retiredAt !== null)
      throw new Conflict('The deployment was retired and its files are gone; deploy them again')
    if (row.status !== 'ACTIVE')
      throw new Conflict(`The deployment is ${row.status}: only an ACTIVE one can be promoted`)
    const time = deps.now()
    const { seq } = one(
      await tx
        .update(environments)
        .set({
          lastSeq: sql`${environments.lastSeq} + 1`,
          currentSeq: sql`${environments.lastSeq} + 1`,
          currentDeploymentId: id,
        })
        .where(eq(environments.id, environmentId))
        .returning({ seq: environments.currentSeq }),
    )
    const subject = { type: 'deployment', id, label, environmentId, seq: String(seq) }
    await recordActivity(tx, time, { applicationId, type: 'deployment.promoted', by, subject })
    return shownDeployment(deps, { ...row, environment: deployment.environment, isCurrent: true })
  })
}

/**
 * Cancels a deployment that is not ACTIVE yet. Its worker stops at its next step. Throws Conflict if the deployment has ended.
 */
export async function cancelDeployment(deps: ShownDeps, by: Actor, deployment: Deployment): Promise<ShownDeployment> {
  return deps.db.transaction(async (tx) => {
    const { id, environment, isCurrent } = deployment
    const cancelled = await failDeployment(tx, deps.now(), { id }, 'Cancelled', 'deployment.cancelled', by)
    if (!cancelled) throw new Conflict(`The deployment is ${(await lockDeployment(tx, id)).status}: it has ended`)
    const { output: _output, sealedVariables: _sealed, ...row } = cancelled
    return shownDeployment(deps, { ...row, environment, isCurrent })
  })
}
