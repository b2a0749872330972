import { randomInt } from 'node:crypto'
import { eq, type SQL, sql, sum } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { bucketCounts } from './table.ts'

/** With a single row, commits into one bucket would wait for each other. */
export const COUNT_SHARDS = 16

/** A change of a bucket's counts, as SQL over columns of the surrounding statement. */
interface CountChange {
  objects: SQL
  bytes: SQL
  trashed: SQL
  trashedBytes: SQL
}

/** A step of a statement that updates the counts: `from` yields one row with the changes. */
export const addToCounts = (bucketId: string, change: CountChange, from: SQL): SQL =>
  sql`insert into ${bucketCounts} as c (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
    select ${bucketId}::uuid, ${randomInt(COUNT_SHARDS)}::smallint, ${change.objects}, ${change.bytes}, ${change.trashed},
      ${change.trashedBytes} from ${from}
    on conflict (bucket_id, shard) do update set objects = c.objects + excluded.objects,
      bytes = c.bytes + excluded.bytes, trashed = c.trashed + excluded.trashed,
      trashed_bytes = c.trashed_bytes + excluded.trashed_bytes`

/** The number and bytes of a bucket's objects, live and trashed. */
export async function countBucket(
  { db }: Pick<StorageDeps, 'db'>,
  bucketId: string,
): Promise<{ objects: number; trashed: number }> {
  const [row] = await db
    .select({
      objects: sum(bucketCounts.objects).mapWith(Number),
      trashed: sum(bucketCounts.trashed).mapWith(Number),
    })
    .from(bucketCounts)
    .where(eq(bucketCounts.bucketId, bucketId))
  return { objects: row?.objects ?? 0, trashed: row?.trashed ?? 0 }
}
