import { and, asc, eq, inArray, isNotNull, isNull, lt, or } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { deploymentFunctions, deployments } from '../deployments/table.ts'
import { deploymentFallbacks, deploymentFiles, functionFiles, functionLinks } from './table.ts'

/** How long an edge may keep using what it had read of a retired deployment. */
const RETIRED_MS = 3_600_000

/**
 * Removes the files of deployments that were retired an hour ago (D83), and of those that failed after their files were linked.
 * One transaction per deployment. Safe to repeat, and in several processes at once.
 */
export async function removeFiles({ db, now }: Pick<DeployDeps, 'db' | 'now'>): Promise<void> {
  const hasFilesToRemove = and(
    isNull(deployments.filesRemovedAt),
    isNotNull(deployments.output),
    or(lt(deployments.retiredAt, new Date(now().getTime() - RETIRED_MS)), eq(deployments.status, 'FAILED')),
  )
  for (;;) {
    const removed = await db.transaction(async (tx) => {
      const [next] = await tx
        .select({ id: deployments.id })
        .from(deployments)
        .where(hasFilesToRemove)
        .orderBy(asc(deployments.id))
        .limit(1)
        .for('no key update', { skipLocked: true })
      if (!next) return false
      await tx.delete(deploymentFiles).where(eq(deploymentFiles.deploymentId, next.id))
      await tx.delete(deploymentFallbacks).where(eq(deploymentFallbacks.deploymentId, next.id))
      // The Functions stay: logs and lists refer to them.
      const functions = tx
        .select({ id: deploymentFunctions.id })
        .from(deploymentFunctions)
        .where(eq(deploymentFunctions.deploymentId, next.id))
      await tx.delete(functionFiles).where(inArray(functionFiles.functionId, functions))
      await tx.delete(functionLinks).where(inArray(functionLinks.functionId, functions))
      await tx.update(deployments).set({ filesRemovedAt: now() }).where(eq(deployments.id, next.id))
      return true
    })
    if (!removed) return
  }
}
