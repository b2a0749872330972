import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { type S3Reply, xmlReply } from '../s3-call.ts'

/** GetBucketVersioning: S3 answers an empty document for a bucket that never had versioning. */
export const getBucketVersioning = async (): Promise<S3Reply> => xmlReply(writeXml('VersioningConfiguration', {}))
