import { NotFound } from '@platform/errors/api-error'
import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { quotedEtag } from '@platform/s3-protocol/wire/preconditions'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { commitObject, type NewObject, type StoredObject } from '../storage/commit-object.ts'
import type { BucketCall } from './s3-call.ts'

/** What the store could not find, in the words of S3: the bucket was deleted, or a source's bytes, meanwhile. */
export function asMissing(error: unknown): unknown {
  if (!(error instanceof NotFound)) return error
  return s3Failure(error.message.startsWith('Bucket') ? 'NoSuchBucket' : 'NoSuchKey')
}

/** Commits an object (`commitObject`) with failures in the words of S3. */
export async function storeObject({ deps, bucket }: BucketCall, object: NewObject): Promise<StoredObject> {
  try {
    return await commitObject(deps, bucket.id, object)
  } catch (error) {
    throw asMissing(error)
  }
}

/** What an answer to a write says of what it made. */
export const madeHeaders = ({ etag, checksum }: Pick<StoredObject, 'etag' | 'checksum'>): Record<string, string> => ({
  etag: quotedEtag(etag),
  ...(checksum && { [checksumHeader(checksum.algorithm)]: checksum.value, 'x-amz-checksum-type': checksum.type }),
})
