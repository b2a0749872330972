import { crc32 } from 'node:zlib'
import type { Db } from '@platform/runtime/database'
import { and, asc, eq, getTableColumns, gt, inArray, isNull, sql } from 'drizzle-orm'
import type { StorageDeps } from '../../deps.ts'
import { unreferenced } from './collect-garbage.ts'
import { blobCandidates, blobs, bucketCounts, buckets, objectBlobs, objects } from '../table.ts'

const AT_ONCE = 200
const REPORTED_MAX = 1_000

type Fault = 'missing' | 'corrupt'

/** An object whose bytes are lost or differ from those stored. */
interface Damaged {
  objectId: string
  bucket: string
  key: string
  isTrashed: boolean
  blobId: string
  fault: Fault
}

export interface VerifyReport {
  blobs: number
  bytes: number
  /** At most a thousand; `damagedCount` counts all. */
  damaged: Damaged[]
  damagedCount: number
  /** Ids of buckets with wrong counts. */
  miscounted: string[]
  /** Live, unreferenced blobs that the collector does not know of. */
  unreferenced: number
}

async function faultOf(
  { blobs: driver }: Pick<StorageDeps, 'blobs'>,
  { id, length, crc32: expected, content }: typeof blobs.$inferSelect,
): Promise<Fault | undefined> {
  let checksum = 0
  let read = 0
  try {
    if (content) [checksum, read] = [crc32(content), content.length]
    else
      for await (const chunk of driver.read(id, { start: 0, end: length - 1 }, 'borrowed')) {
        checksum = crc32(chunk, checksum)
        read += chunk.length
      }
  } catch {
    return read === 0 ? 'missing' : 'corrupt'
  }
  return read === length && checksum === expected ? undefined : 'corrupt'
}

async function damagedBy({ db }: Pick<StorageDeps, 'db'>, faults: ReadonlyMap<string, Fault>): Promise<Damaged[]> {
  if (faults.size === 0) return []
  const rows = await db
    .select({
      objectId: objects.id,
      bucket: buckets.name,
      key: objects.key,
      deletedAt: objects.deletedAt,
      blobId: objectBlobs.blobId,
    })
    .from(objectBlobs)
    .innerJoin(objects, eq(objects.id, objectBlobs.objectId))
    .innerJoin(buckets, eq(buckets.id, objects.bucketId))
    .where(inArray(objectBlobs.blobId, [...faults.keys()]))
  return rows.map(({ deletedAt, ...row }) => ({
    ...row,
    isTrashed: deletedAt !== null,
    fault: faults.get(row.blobId) ?? 'missing',
  }))
}

/** Runs work that reads whole tables, without a statement timeout. */
const unhurried = <T>({ db }: Pick<StorageDeps, 'db'>, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.execute(sql`set local statement_timeout = 0`)
    return work(tx)
  })

/** Buckets with wrong counts, and the correct ones. */
const findMiscounted = (tx: Db) =>
  tx.execute<{ id: string; objects: number; bytes: number; trashed: number; trashed_bytes: number }>(sql`
    with held as (
      select bucket_id as id, count(*) filter (where deleted_at is null) as objects,
        coalesce(sum(content_length) filter (where deleted_at is null), 0) as bytes,
        count(*) filter (where deleted_at is not null) as trashed,
        coalesce(sum(content_length) filter (where deleted_at is not null), 0) as trashed_bytes
      from ${objects} group by bucket_id),
    counted as (
      select bucket_id as id, sum(objects) as objects, sum(bytes) as bytes, sum(trashed) as trashed,
        sum(trashed_bytes) as trashed_bytes
      from ${bucketCounts} group by bucket_id)
    select ${buckets.id} as id, coalesce(h.objects, 0)::float8 as objects, coalesce(h.bytes, 0)::float8 as bytes,
      coalesce(h.trashed, 0)::float8 as trashed, coalesce(h.trashed_bytes, 0)::float8 as trashed_bytes
    from ${buckets} left join held h on h.id = ${buckets.id} left join counted c on c.id = ${buckets.id}
    where ${buckets.deletedAt} is null
      and (coalesce(h.objects, 0), coalesce(h.bytes, 0), coalesce(h.trashed, 0), coalesce(h.trashed_bytes, 0))
        is distinct from (coalesce(c.objects, 0), coalesce(c.bytes, 0), coalesce(c.trashed, 0), coalesce(c.trashed_bytes, 0))`)

/** Recounts a bucket's objects while nobody can change them. */
async function recount(deps: Pick<StorageDeps, 'db'>, bucketId: string): Promise<void> {
  await unhurried(deps, async (tx) => {
    await tx.execute(sql`lock table ${bucketCounts} in exclusive mode`)
    await tx.delete(bucketCounts).where(eq(bucketCounts.bucketId, bucketId))
    await tx.execute(sql`insert into ${bucketCounts} (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
      select ${bucketId}::uuid, 0, count(*) filter (where deleted_at is null),
        coalesce(sum(content_length) filter (where deleted_at is null), 0), count(*) filter (where deleted_at is not null),
        coalesce(sum(content_length) filter (where deleted_at is not null), 0)
      from ${objects} where bucket_id = ${bucketId}`)
  })
}

/**
 * Checks every live blob against its checksum, and the counts of buckets against their objects. repairs: whether to correct
 * counts and to report forgotten blobs to the collector; bytes and objects are never touched.
 */
export async function verifyStorage(
  deps: Pick<StorageDeps, 'db' | 'blobs'>,
  { repairs = false }: { repairs?: boolean } = {},
): Promise<VerifyReport> {
  const { db } = deps
  const report: VerifyReport = { blobs: 0, bytes: 0, damaged: [], damagedCount: 0, miscounted: [], unreferenced: 0 }
  for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
    const rows = await db
      .select(getTableColumns(blobs))
      .from(blobs)
      .where(and(gt(blobs.id, after), eq(blobs.state, 'live')))
      .orderBy(asc(blobs.id))
      .limit(AT_ONCE)
    const faults = new Map<string, Fault>()
    for (const blob of rows) {
      const fault = await faultOf(deps, blob)
      if (fault) faults.set(blob.id, fault)
      report.blobs++
      report.bytes += blob.length
    }
    const damaged = await damagedBy(deps, faults)
    report.damagedCount += damaged.length
    report.damaged.push(...damaged.slice(0, REPORTED_MAX - report.damaged.length))
    const last = rows.at(-1)
    if (!last || rows.length < AT_ONCE) break
    after = last.id
  }
  const miscounted = await unhurried(deps, findMiscounted)
  report.miscounted = miscounted.map(({ id }) => id)
  const forgotten = await unhurried(deps, async (tx) =>
    tx
      .select({ id: blobs.id })
      .from(blobs)
      .leftJoin(blobCandidates, eq(blobCandidates.blobId, blobs.id))
      .where(and(eq(blobs.state, 'live'), isNull(blobCandidates.blobId), await unreferenced(tx))),
  )
  report.unreferenced = forgotten.length
  if (repairs) {
    for (const { id } of miscounted) await recount(deps, id)
    for (let n = 0; n < forgotten.length; n += AT_ONCE)
      await db
        .insert(blobCandidates)
        .values(forgotten.slice(n, n + AT_ONCE).map(({ id }) => ({ blobId: id })))
        .onConflictDoNothing()
  }
  return report
}
