import { NotFound } from '@platform/errors/api-error'
import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { quotedEtag } from '@platform/service/entity-tag'
import { commitObject, type NewObject, type StoredObject } from '../objects/commit-object.ts'
import type { BucketCall } from './s3-call.ts'

/** Translates the store's NotFound into S3's code: the bucket, or the source of a copy, was deleted meanwhile. */
export function asMissing(error: unknown): unknown {
  if (!(error instanceof NotFound)) return error
  return s3Failure(error.message.startsWith('Bucket') ? 'NoSuchBucket' : 'NoSuchKey')
}

/** Commits an object (`commitObject`). Throws PreconditionFailed, NoSuchBucket, NoSuchKey. */
export async function storeObject({ deps, bucket }: BucketCall, object: NewObject): Promise<StoredObject> {
  try {
    return await commitObject(deps, bucket.id, object)
  } catch (error) {
    throw asMissing(error)
  }
}

/** Response headers of a write: the ETag and checksum of the new object. */
export const madeHeaders = ({ etag, checksum }: Pick<StoredObject, 'etag' | 'checksum'>): Record<string, string> => ({
  etag: quotedEtag(etag),
  ...(checksum && { [checksumHeader(checksum.algorithm)]: checksum.value, 'x-amz-checksum-type': checksum.type }),
})
