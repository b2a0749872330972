import { readDeleteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { trashObjects } from '../../objects/trash.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'
import { trashMatching } from '../trash-matching.ts'

const CONDITION_HEADERS = ['x-amz-if-match-size', 'x-amz-if-match-last-modified-time']
/** Conditions of a GET. A deletion refuses them, since ignoring one would delete what it protects. */
const READING_HEADERS = ['if-none-match', 'if-modified-since', 'if-unmodified-since']

/**
 * DeleteObject: moves the object to the trash (D37). A missing key counts as deleted, unless there are conditions. Throws
 * PreconditionFailed, NoSuchKey, InvalidArgument, NotImplemented.
 */
export async function deleteObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(new Map([...headers].filter(([name]) => !CONDITION_HEADERS.includes(name))), bucket.visibility)
  const reading = READING_HEADERS.find((name) => headers.has(name))
  if (reading !== undefined) throw s3Failure('NotImplemented', `A deletion takes no ${reading}; use If-Match`)
  const [size, lastModified] = CONDITION_HEADERS.map((name) => headers.get(name))
  const condition = readDeleteCondition({ ifMatch: headers.get('if-match'), size, lastModified })
  if (condition) await trashMatching(call, key, condition)
  else await trashObjects(deps, bucket.id, [key])
  return { status: 204 }
}
