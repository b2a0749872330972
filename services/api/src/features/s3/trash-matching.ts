import { NotFound, Unavailable } from '@platform/errors/api-error'
import { checkDeleteCondition, type DeleteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { findObject } from '../storage/read-object.ts'
import { trashObject } from '../storage/trash.ts'
import type { BucketCall } from './s3-call.ts'

/** How often a key may be written between a look at it and its deletion. */
const LOOKS_MAX = 100

/**
 * Sends the object of a key to the trash if it is the one that was meant. Length, ETag and time of an object never change,
 * so it is looked at first; the statement that deletes takes that one or none, and where it was replaced in between, its
 * successor is looked at.
 *
 * Throws PreconditionFailed; NoSuchKey where there is none.
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
