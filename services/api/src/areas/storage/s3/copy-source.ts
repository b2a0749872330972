import { checkCopySource } from '@platform/s3-protocol/wire/check-conditions'
import { readCopySource } from '@platform/s3-protocol/wire/read-copy-source'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { asc, eq } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { type Bucket, findBucket } from '../objects/buckets.ts'
import type { LiveBlob, StoredObject } from '../objects/commit-object.ts'
import { findObject } from '../objects/read-object.ts'
import { objectBlobs } from '../objects/table.ts'
import { readBucketName } from './bucket-name.ts'
import type { Caller } from './s3-call.ts'

/**
 * Finds the source of a copy in the caller's application and checks its conditions. A Function copies only within its environment
 * (D9). Throws NoSuchBucket, NoSuchKey, PreconditionFailed, InvalidArgument, InvalidBucketName.
 */
export async function getCopySource({
  deps,
  caller,
  headers,
  bucket: destination,
}: {
  deps: Pick<StorageDeps, 'db'>
  caller: Caller
  headers: ReadonlyMap<string, string>
  bucket: Pick<Bucket, 'environment'>
}): Promise<StoredObject> {
  if (caller.kind === 'anonymous') throw s3Failure('AccessDenied')
  const source = readCopySource(headers.get('x-amz-copy-source') ?? '')
  const { environment, name } = readBucketName(source.bucket)
  if (caller.kind === 'function' && environment !== destination.environment) throw s3Failure('AccessDenied')
  const bucket = await findBucket(deps, caller.applicationId, environment, name)
  if (!bucket) throw s3Failure('NoSuchBucket', undefined, { BucketName: source.bucket })
  const object = await findObject(deps, bucket.id, source.key)
  if (!object) throw s3Failure('NoSuchKey', undefined, { Key: source.key })
  checkCopySource(headers, object)
  return object
}

/** The blobs of an object in order, for another object to refer to. */
export async function listBlobs(
  { db }: Pick<StorageDeps, 'db'>,
  { id }: Pick<StoredObject, 'id'>,
): Promise<(LiveBlob & { part?: number; partChecksum?: string })[]> {
  const rows = await db
    .select({
      id: objectBlobs.blobId,
      length: objectBlobs.length,
      part: objectBlobs.part,
      partChecksum: objectBlobs.partChecksum,
    })
    .from(objectBlobs)
    .where(eq(objectBlobs.objectId, id))
    .orderBy(asc(objectBlobs.n))
  return rows.map(({ part, partChecksum, ...blob }) => ({
    ...blob,
    ...(part !== null && { part }),
    ...(partChecksum !== null && { partChecksum }),
  }))
}
