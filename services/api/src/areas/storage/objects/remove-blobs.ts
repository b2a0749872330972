import { and, eq, inArray } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { blobs } from './table.ts'

/** Removes dead blobs: the driver's bytes first, then the rows, so that bytes never lack a row. Safe to repeat. */
export async function removeDeadBlobs(
  { db, blobs: driver }: Pick<StorageDeps, 'db' | 'blobs'>,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return
  await driver.remove(ids)
  await db.delete(blobs).where(and(inArray(blobs.id, [...ids]), eq(blobs.state, 'dead')))
}
