import { type S3Code, s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { writeBucketName } from '../bucket-name.ts'
import { type BucketCall, type ObjectCall, type S3Reply, xmlReply } from '../s3-call.ts'

/** Reads a configuration that no bucket here can have: S3 has a separate error for each that is not set. */
export const refuseAs =
  (code: S3Code) =>
  async ({ bucket }: BucketCall): Promise<S3Reply> => {
    throw s3Failure(code, undefined, { BucketName: writeBucketName(bucket) })
  }

/** Reads a configuration that is the same for all buckets, as S3 answers if nothing was set. */
export const answerAlways =
  (root: string, content: XmlElements = {}) =>
  async (): Promise<S3Reply> =>
    xmlReply(writeXml(root, content))

/** Deletes a configuration that no bucket here can have: a no-op satisfies S3's promise that none is left. */
export const deleteNothing = async (): Promise<S3Reply> => ({ status: 204 })

/** GetObjectRetention and GetObjectLegalHold for buckets without Object Lock, as all are. */
export async function refuseObjectLock({ bucket }: ObjectCall): Promise<S3Reply> {
  throw s3Failure('InvalidRequest', 'Bucket is missing Object Lock Configuration', {
    BucketName: writeBucketName(bucket),
  })
}
