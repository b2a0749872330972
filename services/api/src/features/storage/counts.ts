import { randomInt } from 'node:crypto'
import { eq, type SQL, sql, sum } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { bucketCounts } from './table.ts'

/** A single row would let the commits of a bucket wait for each other. */
export const COUNT_SHARDS = 16

/** What a change adds to the counts of a bucket, as SQL over whatever the statement has at hand. */
interface CountChange {
  objects: SQL
  bytes: SQL
  trashed: SQL
  trashedBytes: SQL
}

/** A step of a statement that keeps the counts: `from` yields one row, with what was changed. */
export const addToCounts = (bucketId: string, change: CountChange, from: SQL): SQL =>
  sql`insert into ${bucketCounts} as c (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
    select ${bucketId}::uuid, ${randomInt(COUNT_SHARDS)}::smallint, ${change.objects}, ${change.bytes}, ${change.trashed},
      ${change.trashedBytes} from ${from}
    on conflict (bucket_id, shard) do update set objects = c.objects + excluded.objects,
      bytes = c.bytes + excluded.bytes, trashed = c.trashed + excluded.trashed,
      trashed_bytes = c.trashed_bytes + excluded.trashed_bytes`

/** What a bucket holds, live and in its trash. */
export async function countBucket(
  { db }: Pick<Deps, 'db'>,
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
