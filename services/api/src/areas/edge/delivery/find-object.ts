import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import { blobs, buckets, objectBlobs, objects } from '../../storage/objects/table.ts'

/** The bucket of a slug, and the live object under the key with its first blob: one statement. */
export const findObject = lazyPrepared((db) =>
  db
    .select({
      bucket: {
        id: buckets.id,
        name: buckets.name,
        slug: buckets.slug,
        visibility: buckets.visibility,
        applicationId: buckets.applicationId,
      },
      object: getTableColumns(objects),
      first: { id: blobs.id, length: blobs.length, content: blobs.content },
    })
    .from(buckets)
    .leftJoin(
      objects,
      and(eq(objects.bucketId, buckets.id), eq(objects.key, sql.placeholder('key')), isNull(objects.deletedAt)),
    )
    .leftJoin(objectBlobs, and(eq(objectBlobs.objectId, objects.id), eq(objectBlobs.n, 0)))
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(and(eq(buckets.slug, sql.placeholder('slug')), isNull(buckets.deletedAt)))
    .prepare('delivery_target'),
)
