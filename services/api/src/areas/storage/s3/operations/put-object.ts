import { checkWriteCondition, readWriteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { readTagHeader } from '@platform/s3-protocol/wire/read-tags'
import { findObject } from '../../objects/read-object.ts'
import { readDescription } from '../object-description.ts'
import { contentOf, receiveObject } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'
import { madeHeaders, storeObject } from '../store-object.ts'

/**
 * PutObject. A condition is checked before the client is asked for the body, and again by the statement that writes; of
 * concurrent conditional writes exactly one succeeds.
 */
export async function putObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(headers, bucket.visibility)
  const description = readDescription(headers)
  const tags = readTagHeader(headers.get('x-amz-tagging'))
  const condition = readWriteCondition(headers)
  if (condition) checkWriteCondition(condition, await findObject(deps, bucket.id, key))
  await using body = await receiveObject(call)
  const object = await storeObject(call, { key, ...description, tags, ...contentOf(body), condition })
  body.keep()
  return { status: 200, headers: madeHeaders(object) }
}
