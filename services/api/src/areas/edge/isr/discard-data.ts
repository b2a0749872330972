import { inBatch } from '@platform/runtime/discard-rows'
import { inArray, isNotNull, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { isrData, isrTags, isrTotals } from './table.ts'

const AT_ONCE = 1_000

/**
 * Removes the framework data and tags of retired deployments. Other deployments' tags stay however old they are: the pages of a
 * build are older. Safe to repeat, and in several processes at once.
 */
export async function discardData({ db }: Pick<EdgeDeps, 'db'>): Promise<void> {
  const retired = db.select({ id: deployments.id }).from(deployments).where(isNotNull(deployments.retiredAt))
  for (const table of [isrData, isrTags, isrTotals]) {
    let count: number | undefined
    do {
      count = await inBatch(db, async (tx) => {
        const batch = tx
          .select({ place: sql`ctid` })
          .from(table)
          .where(inArray(table.deploymentId, retired))
          .limit(AT_ONCE)
          .for('update', { skipLocked: true })
        return (await tx.delete(table).where(sql`ctid = any(array(${batch}))`)).count
      })
    } while (count === AT_ONCE)
  }
}
