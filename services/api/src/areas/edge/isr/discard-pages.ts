import { inBatch } from '@platform/runtime/discard-rows'
import { inArray, isNotNull, lt, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { isrClaims, isrPages } from './table.ts'

const AT_ONCE = 1_000

/** Removes the pages of retired deployments, and expired claims. Safe to repeat, and in several processes at once. */
export async function discardPages({ db }: Pick<EdgeDeps, 'db'>): Promise<void> {
  const retired = db.select({ id: deployments.id }).from(deployments).where(isNotNull(deployments.retiredAt))
  let count: number | undefined
  do {
    count = await inBatch(db, async (tx) => {
      const batch = tx
        .select({ place: sql`ctid` })
        .from(isrPages)
        .where(inArray(isrPages.deploymentId, retired))
        .limit(AT_ONCE)
        .for('update', { skipLocked: true })
      return (await tx.delete(isrPages).where(sql`ctid = any(array(${batch}))`)).count
    })
  } while (count === AT_ONCE)
  await db.delete(isrClaims).where(lt(isrClaims.until, sql`clock_timestamp()`))
}
