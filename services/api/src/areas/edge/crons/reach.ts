import { NotFound } from '@platform/errors/api-error'
import { and, eq } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { EdgeDeps } from '../deps.ts'
import { type Deployment, reachDeployment } from '../../deploy/deployments/reach.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'

/** A cron with its deployment. */
export interface DeployedCron {
  cron: typeof deploymentCrons.$inferSelect
  deployment: Deployment
}

/** The cron, if the actor reaches its deployment. Throws NotFound. */
export async function reachCron(
  call: { deps: Pick<EdgeDeps, 'db'>; actor: Actor },
  { id, cronId }: { id: string; cronId: string },
): Promise<DeployedCron> {
  const deployment = await reachDeployment(call, id)
  const [cron] = await call.deps.db
    .select()
    .from(deploymentCrons)
    .where(and(eq(deploymentCrons.id, cronId), eq(deploymentCrons.deploymentId, id)))
  if (!cron) throw new NotFound('Cron')
  return { cron, deployment }
}
