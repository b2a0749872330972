import type { BucketCall, S3Reply } from '../s3-call.ts'

/** HeadBucket: only called if the bucket exists and the caller reaches it. */
export const headBucket = async ({ deps }: BucketCall): Promise<S3Reply> => ({
  status: 200,
  headers: { 'x-amz-bucket-region': deps.s3Region },
})
