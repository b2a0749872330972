import type { BucketCall, S3Reply } from '../s3-call.ts'

/** HeadBucket: the bucket exists and the caller reaches it, or this would not be called. */
export const headBucket = async ({ deps }: BucketCall): Promise<S3Reply> => ({
  status: 200,
  headers: { 'x-amz-bucket-region': deps.s3Region },
})
