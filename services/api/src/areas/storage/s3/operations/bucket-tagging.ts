import { readTagDocument } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { configureBucket, findConfiguration } from '../bucket-configuration.ts'
import { writeBucketName } from '../bucket-name.ts'
import { readSmallBody } from '../read-small-body.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'
import { writeTags } from '../write-tags.ts'

/** Fifty tags of 384 characters, with the bytes that XML may need for them. */
const BODY_BYTES_MAX = 256 * 1_024

/** GetBucketTagging. Throws NoSuchTagSet. */
export async function getBucketTagging({ deps, bucket }: BucketCall): Promise<S3Reply> {
  const { tags } = await findConfiguration(deps, bucket)
  if (!tags) throw s3Failure('NoSuchTagSet', undefined, { BucketName: writeBucketName(bucket) })
  return xmlReply(writeTags(tags))
}

/**
 * PutBucketTagging: replaces the whole set; an empty set means no tags. Throws MalformedXML, InvalidTag,
 * MaxMessageLengthExceeded.
 */
export async function putBucketTagging(call: BucketCall): Promise<S3Reply> {
  const tags = readTagDocument(await readSmallBody(call, BODY_BYTES_MAX), 'Bucket')
  await configureBucket(call.deps, call.bucket, { tags: tags.length > 0 ? tags : null })
  return { status: 204 }
}

/** DeleteBucketTagging. */
export async function deleteBucketTagging({ deps, bucket }: BucketCall): Promise<S3Reply> {
  await configureBucket(deps, bucket, { tags: null })
  return { status: 204 }
}
