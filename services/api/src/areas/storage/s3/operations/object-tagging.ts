import { readTagDocument, type Tag } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, eq, isNull } from 'drizzle-orm'
import { objects } from '../../objects/table.ts'
import { readSmallBody } from '../read-small-body.ts'
import { type KeyedCall, type ObjectCall, type S3Reply, xmlReply } from '../s3-call.ts'
import { writeTags } from '../write-tags.ts'

const BODY_BYTES_MAX = 64 * 1_024

/** GetObjectTagging. */
export const getObjectTagging = async ({ found }: ObjectCall): Promise<S3Reply> =>
  xmlReply(writeTags(found.object.tags))

async function setTags({ deps, bucket, key }: KeyedCall, tags: readonly Tag[]): Promise<void> {
  const changed = await deps.db
    .update(objects)
    .set({ tags, updatedAt: deps.now() })
    .where(and(eq(objects.bucketId, bucket.id), eq(objects.key, key), isNull(objects.deletedAt)))
    .returning({ id: objects.id })
  if (changed.length === 0) throw s3Failure('NoSuchKey', undefined, { Key: key })
}

/** PutObjectTagging: replaces the whole set. */
export async function putObjectTagging(call: KeyedCall): Promise<S3Reply> {
  await setTags(call, readTagDocument(await readSmallBody(call, BODY_BYTES_MAX), 'Object'))
  return { status: 200 }
}

/** DeleteObjectTagging. */
export async function deleteObjectTagging(call: KeyedCall): Promise<S3Reply> {
  await setTags(call, [])
  return { status: 204 }
}
