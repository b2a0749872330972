import type { Db } from '@platform/runtime/database'
import { inBatch } from '@platform/runtime/discard-rows'
import { and, asc, eq, getTableName, inArray, isNotNull, lt, notExists, type SQL, sql } from 'drizzle-orm'
import type { StorageDeps } from '../../deps.ts'
import { removeDeadBlobs } from '../remove-blobs.ts'
import { blobCandidates, blobs, bucketCounts, buckets, objects, uploads } from '../table.ts'

/** Maximum time for a body to arrive and be committed. */
const PENDING_MS = 86_400_000
/** How long a reader that has begun may continue to read deleted content. */
const DEAD_MS = 3_600_000
const AT_ONCE = 500

type CollectDeps = Pick<StorageDeps, 'db' | 'now' | 'blobs'>

/** Repeats a batch until one is not full, or another process is collecting. */
async function inBatches(deps: CollectDeps, batch: (db: StorageDeps['db']) => Promise<number>): Promise<void> {
  while (((await inBatch(deps.db, batch)) ?? 0) >= AT_ONCE);
}

/** Deletes the contents of deleted buckets, some hundreds of rows at a time, and finally their own rows (D36). */
async function emptyDeletedBuckets(deps: CollectDeps): Promise<void> {
  const deleted = await deps.db.select({ id: buckets.id }).from(buckets).where(isNotNull(buckets.deletedAt))
  for (const { id } of deleted) {
    for (const table of [objects, uploads])
      await inBatches(deps, async (db) => {
        const next = db.select({ id: table.id }).from(table).where(eq(table.bucketId, id)).limit(AT_ONCE)
        const { count } = await db.delete(table).where(inArray(table.id, next))
        return count
      })
    await inBatch(deps.db, async (db) => {
      const left = [objects, uploads].map((table) =>
        notExists(db.select({ id: table.id }).from(table).where(eq(table.bucketId, buckets.id))),
      )
      await db.delete(bucketCounts).where(eq(bucketCounts.bucketId, id))
      await db.delete(buckets).where(and(eq(buckets.id, id), ...left))
    })
  }
}

/**
 * SQL: true if nothing refers to a blob. Covers every foreign key to blobs, so no feature can be forgotten here, and in a rolling
 * update this release also sees references of the next one. Each such column needs an index.
 */
export async function unreferenced(db: Db): Promise<SQL> {
  const referring = await db.execute<{ table: string; column: string }>(sql`
    select k.conrelid::regclass::text as table, quote_ident(a.attname) as column
    from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
    where k.contype = 'f' and k.confrelid = '${sql.raw(getTableName(blobs))}'::regclass and k.conparentid = 0`)
  // No foreign keys at all would be a mistake here, and would delete every blob.
  if (referring.length === 0) throw new Error('Nothing has a foreign key to blobs')
  return sql.join(
    referring.map(
      ({ table, column }) => sql`not exists (select from ${sql.raw(table)} r where r.${sql.raw(column)} = ${blobs.id})`,
    ),
    sql` and `,
  )
}

/** Marks blobs as dead that lost their last reference. A dead blob can never be referenced again. */
async function markUnreferenced(deps: CollectDeps): Promise<void> {
  const isUnreferenced = await unreferenced(deps.db)
  await inBatches(deps, async (db) => {
    const candidates = await db.select({ id: blobCandidates.blobId }).from(blobCandidates).limit(AT_ONCE)
    const ids = candidates.map(({ id }) => id)
    if (ids.length === 0) return 0
    // A transaction about to refer to a blob holds its row, or waits for this one and finds the blob dead.
    await db.select({ id: blobs.id }).from(blobs).where(inArray(blobs.id, ids)).orderBy(asc(blobs.id)).for('update')
    await db
      .update(blobs)
      .set({ state: 'dead', diedAt: deps.now() })
      .where(and(inArray(blobs.id, ids), eq(blobs.state, 'live'), isUnreferenced))
    await db.delete(blobCandidates).where(inArray(blobCandidates.blobId, ids))
    return ids.length
  })
}

/** Marks blobs as dead that were not committed within a day, and removes those that have been dead for an hour. */
async function removeLeftBlobs(deps: CollectDeps): Promise<void> {
  const time = deps.now()
  await deps.db
    .update(blobs)
    .set({ state: 'dead', diedAt: time })
    .where(and(eq(blobs.state, 'pending'), lt(blobs.createdAt, new Date(time.getTime() - PENDING_MS))))
  for (;;) {
    const dead = await deps.db
      .select({ id: blobs.id })
      .from(blobs)
      .where(and(eq(blobs.state, 'dead'), lt(blobs.diedAt, new Date(time.getTime() - DEAD_MS))))
      .limit(AT_ONCE)
    await removeDeadBlobs(
      deps,
      dead.map(({ id }) => id),
    )
    if (dead.length < AT_ONCE) return
  }
}

/**
 * Removes unreferenced bytes: of purged objects, replaced parts, abandoned uploads, deleted buckets, and bodies that were never
 * committed. Safe to repeat, and in several processes at once.
 */
export async function collectGarbage(deps: CollectDeps): Promise<void> {
  await emptyDeletedBuckets(deps)
  await markUnreferenced(deps)
  await removeLeftBlobs(deps)
}
