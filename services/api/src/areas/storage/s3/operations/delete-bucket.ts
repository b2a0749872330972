import { Conflict, NotFound } from '@platform/errors/api-error'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { deleteBucket } from '../../objects/buckets.ts'
import type { BucketCall, S3Reply } from '../s3-call.ts'

/** DeleteBucket: deletes its trash too, but never live objects (D36). Throws BucketNotEmpty, NoSuchBucket. */
export async function deleteOneBucket({ deps, bucket }: BucketCall): Promise<S3Reply> {
  try {
    await deleteBucket(deps, bucket)
  } catch (error) {
    if (error instanceof Conflict) throw s3Failure('BucketNotEmpty')
    throw error instanceof NotFound ? s3Failure('NoSuchBucket') : error
  }
  return { status: 204 }
}
