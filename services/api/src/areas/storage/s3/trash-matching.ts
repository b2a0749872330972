import { NotFound, Unavailable } from '@platform/errors/api-error'
import { checkDeleteCondition, type DeleteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { findObject } from '../objects/read-object.ts'
import { trashObject } from '../objects/trash.ts'
import type { BucketCall } from './s3-call.ts'

/** How often the object may be replaced between reading and deleting it. */
const LOOKS_MAX = 100

/**
 * Moves the object of a key to the trash if it meets a condition. Length, ETag and time of an object never change, so the object
 * is read and checked first; the deleting statement matches exactly that object, and if it was replaced meanwhile, its successor
 * is checked.
 *
 * Throws PreconditionFailed; NoSuchKey if there is no object; Unavailable after 100 replacements.
 */
export async function trashMatching(
  { deps, bucket }: BucketCall,
  key: string,
  condition: DeleteCondition,
): Promise<void> {
  for (let looks = 1; ; looks++) {
    const present = await findObject(deps, bucket.id, key)
    if (!present) throw s3Failure('NoSuchKey')
    checkDeleteCondition(condition, present)
    try {
      return await trashObject(deps, bucket.id, present.id)
    } catch (error) {
      if (!(error instanceof NotFound)) throw error
      if (looks === LOOKS_MAX) throw new Unavailable('Too many writers of one key; try again later', error)
    }
  }
}
