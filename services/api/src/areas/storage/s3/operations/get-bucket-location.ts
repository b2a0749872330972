import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'

/** S3 writes this region as an empty location constraint. */
const REGION_UNWRITTEN = 'us-east-1'

/** GetBucketLocation. */
export const getBucketLocation = async ({ deps }: BucketCall): Promise<S3Reply> =>
  xmlReply(writeXml('LocationConstraint', deps.s3Region === REGION_UNWRITTEN ? '' : deps.s3Region))
