import { inBatch } from '@platform/runtime/discard-rows'
import { and, eq, gt, inArray, isNotNull, lt, min, notExists, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { quotas } from '../../tenancy/products/registry.ts'
import { quotaOverrides } from '../../tenancy/products/table.ts'
import { imageCaches, imagePurges, imageTotals, imageVariants } from './table.ts'
import { keepWithinQuota } from './variants.ts'

const AT_ONCE = 1_000
/** By then any image begun before a purge has ended. */
const PURGED_MS = 86_400_000

type KeepDeps = Pick<EdgeDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** Repeats a batch until one is not full, or another process is cleaning up. */
async function inBatches({ db }: KeepDeps, batch: (tx: EdgeDeps['db']) => Promise<number>): Promise<void> {
  while (((await inBatch(db, batch)) ?? 0) >= AT_ONCE);
}

/** Removes the images of retired deployments, and then their purge epochs. */
async function removeRetired(deps: KeepDeps): Promise<void> {
  const retired = deps.db.select({ id: deployments.id }).from(deployments).where(isNotNull(deployments.retiredAt))
  await inBatches(deps, async (tx) => {
    const batch = tx
      .select({ place: sql`ctid` })
      .from(imageVariants)
      .where(inArray(imageVariants.deploymentId, retired))
      .limit(AT_ONCE)
      .for('update', { skipLocked: true })
    return (await tx.delete(imageVariants).where(sql`ctid = any(array(${batch}))`)).count
  })
  const ofCache = deps.db
    .select({ n: sql`1` })
    .from(imageVariants)
    .where(eq(imageVariants.deploymentId, imageCaches.deploymentId))
  await deps.db.delete(imageCaches).where(and(inArray(imageCaches.deploymentId, retired), notExists(ofCache)))
}

/** Deletes the epochs of sources that have no images any more: no older image is left that they could exclude. */
async function forgetPurges(deps: KeepDeps): Promise<void> {
  const before = new Date(deps.now().getTime() - PURGED_MS)
  await inBatches(deps, async (tx) => {
    const ofSource = tx
      .select({ n: sql`1` })
      .from(imageVariants)
      .where(
        and(eq(imageVariants.deploymentId, imagePurges.deploymentId), eq(imageVariants.source, imagePurges.source)),
      )
    const batch = tx
      .select({ place: sql`ctid` })
      .from(imagePurges)
      .where(and(lt(imagePurges.purgedAt, before), notExists(ofSource)))
      .limit(AT_ONCE)
      .for('update', { skipLocked: true })
    return (await tx.delete(imagePurges).where(sql`ctid = any(array(${batch}))`)).count
  })
}

/**
 * Removes the images of retired deployments, and images beyond an organization's quota, such as one that was lowered. Storing an
 * image enforces the quota by itself. Safe to repeat, and in several processes at once.
 */
export async function keepImageCaches(deps: KeepDeps): Promise<void> {
  await removeRetired(deps)
  await forgetPurges(deps)
  const [lowest] = await deps.db
    .select({ limit: min(quotaOverrides.limit) })
    .from(quotaOverrides)
    .where(eq(quotaOverrides.quota, 'image_cache_bytes'))
  const least = Math.min(lowest?.limit ?? Infinity, ...Object.values(quotas).map((plan) => plan.image_cache_bytes))
  const large = await deps.db
    .select({ id: imageTotals.organizationId })
    .from(imageTotals)
    .where(gt(imageTotals.bytes, least))
  for (const { id } of large) await keepWithinQuota(deps, id)
}
