import { NotFound } from '@platform/errors/api-error'
import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { checkWriteCondition, readWriteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { quotedEtag } from '@platform/s3-protocol/wire/preconditions'
import { readTagHeader } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { commitObject, type NewObject, type StoredObject } from '../../storage/commit-object.ts'
import { findObject } from '../../storage/read-object.ts'
import { readDescription } from '../object-description.ts'
import { receiveObject } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { BucketCall, KeyedCall, S3Reply } from '../s3-call.ts'

/** What the store could not find, in the words of S3: the bucket was deleted, or a source's bytes, meanwhile. */
export function asMissing(error: unknown): unknown {
  if (!(error instanceof NotFound)) return error
  return s3Failure(error.message.startsWith('Bucket') ? 'NoSuchBucket' : 'NoSuchKey')
}

/** Commits an object (`commitObject`) with failures in the words of S3. */
export async function putIntoStore({ deps, bucket }: BucketCall, object: NewObject): Promise<StoredObject> {
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

/**
 * PutObject. A condition is held against what is there before the body is asked for, and again by the statement that
 * writes; of any number of racers one wins.
 */
export async function putObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(headers, bucket.visibility)
  const description = readDescription(headers)
  const tags = readTagHeader(headers.get('x-amz-tagging'))
  const condition = readWriteCondition(headers)
  if (condition) checkWriteCondition(condition, await findObject(deps, bucket.id, key))
  const object = await receiveObject(call, ({ received, checksum }) =>
    putIntoStore(call, {
      key,
      ...description,
      tags,
      contentLength: received.length,
      etag: received.md5.toString('hex'),
      md5: received.md5,
      sha256: received.sha256,
      checksum: checksum ? { ...checksum, type: 'FULL_OBJECT' } : null,
      blobs: received.blobs,
      condition,
    }),
  )
  return { status: 200, headers: madeHeaders(object) }
}
