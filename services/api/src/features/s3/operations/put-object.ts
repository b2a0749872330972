import { checkWriteCondition, readWriteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { readTagHeader } from '@platform/s3-protocol/wire/read-tags'
import { findObject } from '../../storage/read-object.ts'
import { readDescription } from '../object-description.ts'
import { receiveObject } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'
import { madeHeaders, storeObject } from '../store-object.ts'

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
    storeObject(call, {
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
