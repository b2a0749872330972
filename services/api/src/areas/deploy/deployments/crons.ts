import type { Cron } from '@platform/build-output/manifest'
import type { Db } from '@platform/runtime/database'
import { assetIdOf } from './asset-id.ts'
import { deploymentCrons } from './table.ts'

const nameOf = ({ path, schedule }: Cron): string => `${schedule} ${path}.cron`

/** The id of a deployment's cron; never changes. */
export const cronIdOf = (deploymentId: string, cron: Cron): string => assetIdOf(deploymentId, nameOf(cron))

/** Identifies a cron within its environment, where it runs once a minute; equal for all deployments that have the same cron. */
export const slotOf = (environmentId: string, cron: Cron): string => assetIdOf(environmentId, nameOf(cron))

/** Stores a deployment's crons, in the transaction `tx` that stores its output. Safe to repeat. */
export async function storeCrons(tx: Pick<Db, 'insert'>, deploymentId: string, crons: readonly Cron[]): Promise<void> {
  if (crons.length === 0) return
  const rows = crons.map((cron, n) => ({ id: cronIdOf(deploymentId, cron), deploymentId, n, ...cron }))
  await tx.insert(deploymentCrons).values(rows).onConflictDoNothing()
}
