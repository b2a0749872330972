import { readCorsDocument, writeCorsDocument } from '@platform/s3-protocol/wire/cors-rules'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { configureBucket, findConfiguration } from '../bucket-configuration.ts'
import { writeBucketName } from '../bucket-name.ts'
import { readSmallBody } from '../read-small-body.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'

/** S3's limit. */
const BODY_BYTES_MAX = 64 * 1_024

/** GetBucketCors. Throws NoSuchCORSConfiguration. */
export async function getBucketCors({ deps, bucket }: BucketCall): Promise<S3Reply> {
  const { cors } = await findConfiguration(deps, bucket)
  if (!cors) throw s3Failure('NoSuchCORSConfiguration', undefined, { BucketName: writeBucketName(bucket) })
  return xmlReply(writeCorsDocument(cors))
}

/** PutBucketCors: replaces all rules. Throws MalformedXML, InvalidRequest, MaxMessageLengthExceeded. */
export async function putBucketCors(call: BucketCall): Promise<S3Reply> {
  const cors = readCorsDocument(await readSmallBody(call, BODY_BYTES_MAX))
  await configureBucket(call.deps, call.bucket, { cors })
  return { status: 200 }
}

/** DeleteBucketCors. */
export async function deleteBucketCors({ deps, bucket }: BucketCall): Promise<S3Reply> {
  await configureBucket(deps, bucket, { cors: null })
  return { status: 204 }
}
