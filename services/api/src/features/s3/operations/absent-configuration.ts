import { type S3Code, s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { writeBucketName } from '../bucket-name.ts'
import { type BucketCall, type ObjectCall, type S3Reply, xmlReply } from '../s3-call.ts'

/** Reads a configuration that no bucket here can have: S3 has an error of its own for each, if none was set. */
export const refuseAs =
  (code: S3Code) =>
  async ({ bucket }: BucketCall): Promise<S3Reply> => {
    throw s3Failure(code, undefined, { BucketName: writeBucketName(bucket) })
  }

/** Reads a configuration that is the same for all buckets, as S3 answers for a bucket where nothing was set. */
export const answerAlways =
  (root: string, content: XmlElements = {}) =>
  async (): Promise<S3Reply> =>
    xmlReply(writeXml(root, content))

/** Deletes a configuration that no bucket here can have: afterwards there is none, which is all that S3 promises. */
export const deleteNothing = async (): Promise<S3Reply> => ({ status: 204 })

/** GetObjectRetention and GetObjectLegalHold, where no bucket has Object Lock. */
export async function refuseObjectLock({ bucket }: ObjectCall): Promise<S3Reply> {
  throw s3Failure('InvalidRequest', 'Bucket is missing Object Lock Configuration', {
    BucketName: writeBucketName(bucket),
  })
}
