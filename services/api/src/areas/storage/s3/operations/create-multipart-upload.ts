import { newId } from '@platform/runtime/new-id'
import { isCrc, readAlgorithm } from '@platform/s3-protocol/body/checksum'
import { readTagHeader } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { uploads } from '../../objects/table.ts'
import { writeBucketName } from '../bucket-name.ts'
import { readDescription } from '../object-description.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import { type KeyedCall, type S3Reply, xmlReply } from '../s3-call.ts'

/** An unfinished multipart upload expires after a week. S3 leaves this to lifecycle rules. */
const UPLOAD_MS = 7 * 86_400_000

/** Reads algorithm and type of the checksum. Throws InvalidRequest for a combination that S3 does not allow. */
function readChecksumKind(headers: ReadonlyMap<string, string>) {
  const algorithm = headers.get('x-amz-checksum-algorithm')
  const type = headers.get('x-amz-checksum-type')?.toUpperCase()
  if (algorithm === undefined) {
    if (type !== undefined) throw s3Failure('InvalidRequest', 'x-amz-checksum-type needs x-amz-checksum-algorithm')
    return { checksumAlgorithm: null, checksumType: null }
  }
  const checksumAlgorithm = readAlgorithm(algorithm)
  const usual = checksumAlgorithm === 'CRC64NVME' ? 'FULL_OBJECT' : 'COMPOSITE'
  const checksumType = type ?? usual
  if (checksumType !== 'FULL_OBJECT' && checksumType !== 'COMPOSITE')
    throw s3Failure('InvalidRequest', 'Value for x-amz-checksum-type header is invalid.')
  if (checksumType === 'FULL_OBJECT' ? !isCrc(checksumAlgorithm) : checksumAlgorithm === 'CRC64NVME')
    throw s3Failure('InvalidRequest', `The ${checksumType} checksum type cannot be used with ${checksumAlgorithm}.`)
  return { checksumAlgorithm, checksumType } as const
}

/** CreateMultipartUpload. */
export async function createMultipartUpload(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(headers, bucket.visibility)
  const kind = readChecksumKind(headers)
  const time = deps.now()
  const id = newId()
  await deps.db.insert(uploads).values({
    id,
    kind: 's3',
    bucketId: bucket.id,
    key,
    ...readDescription(headers),
    tags: readTagHeader(headers.get('x-amz-tagging')),
    ...kind,
    state: 'pending',
    expiresAt: new Date(time.getTime() + UPLOAD_MS),
    createdAt: time,
    updatedAt: time,
  })
  const document = writeXml('InitiateMultipartUploadResult', {
    Bucket: writeBucketName(bucket),
    Key: key,
    UploadId: id,
  })
  if (!kind.checksumAlgorithm) return xmlReply(document)
  return xmlReply(document, {
    'x-amz-checksum-algorithm': kind.checksumAlgorithm,
    'x-amz-checksum-type': kind.checksumType,
  })
}
