import { type ChecksumAlgorithm, readAlgorithm, startSum } from '@platform/s3-protocol/body/checksum'
import { checkWriteCondition, readWriteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { readTagHeader } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { StoredObject } from '../../objects/commit-object.ts'
import { chunksOf, findObject, openObject } from '../../objects/read-object.ts'
import type { ObjectChecksum } from '../../objects/table.ts'
import { copyResult } from '../copy-result.ts'
import { getCopySource, listBlobs } from '../copy-source.ts'
import { readDescription } from '../object-description.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Call, S3Reply } from '../s3-call.ts'
import { withKeepAlive } from '../with-keep-alive.ts'
import { storeObject } from '../store-object.ts'

/** COPY or REPLACE. Throws InvalidArgument. */
function readDirective(headers: ReadonlyMap<string, string>, name: string): 'COPY' | 'REPLACE' {
  const value = headers.get(name) ?? 'COPY'
  if (value !== 'COPY' && value !== 'REPLACE') throw s3Failure('InvalidArgument', `Unknown ${name}`)
  return value
}

/** Reads an object to compute a checksum that is not stored with it. */
async function sumOf({ deps }: S3Call, object: StoredObject, algorithm: ChecksumAlgorithm): Promise<ObjectChecksum> {
  const sum = await startSum(algorithm)
  for await (const chunk of chunksOf(openObject(deps, object, null, { chunks: 'borrowed' }))) sum.update(chunk)
  return { algorithm, type: 'FULL_OBJECT', value: sum.digest().toString('base64') }
}

async function checksumOf(call: S3Call, source: StoredObject): Promise<ObjectChecksum | null> {
  const algorithmName = call.headers.get('x-amz-checksum-algorithm')
  if (algorithmName === undefined) return source.checksum
  const algorithm = readAlgorithm(algorithmName)
  return source.checksum?.algorithm === algorithm ? source.checksum : sumOf(call, source, algorithm)
}

/**
 * CopyObject: inserts rows that refer to the source's blobs, whatever the size; bytes are read only to compute a checksum that
 * the source lacks. Keeps the source's ETag.
 *
 * Throws InvalidRequest for a copy onto itself that changes nothing, NoSuchKey, PreconditionFailed.
 */
export async function copyObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(headers, bucket.visibility)
  const metadata = readDirective(headers, 'x-amz-metadata-directive')
  const tagging = readDirective(headers, 'x-amz-tagging-directive')
  const condition = readWriteCondition(headers)
  const replacement = metadata === 'REPLACE' ? readDescription(headers) : undefined
  const newTags = tagging === 'REPLACE' ? readTagHeader(headers.get('x-amz-tagging')) : undefined
  const source = await getCopySource(call)
  // An explicit storage class counts as a change (rclone settier), though there is only STANDARD.
  const isChange = replacement !== undefined || newTags !== undefined || headers.has('x-amz-storage-class')
  if (source.bucketId === bucket.id && source.key === key && !isChange)
    throw s3Failure(
      'InvalidRequest',
      'This copy request is illegal because it is trying to copy an object to itself without changing its metadata, tags or storage class',
    )
  if (condition) checkWriteCondition(condition, await findObject(deps, bucket.id, key))
  return withKeepAlive(call, async () => {
    const checksum = await checksumOf(call, source)
    const blobs = await listBlobs(deps, source)
    const made = await storeObject(call, {
      key,
      ...(replacement ?? { contentType: source.contentType, headers: source.headers, metadata: source.metadata }),
      tags: newTags ?? source.tags,
      contentLength: source.contentLength,
      etag: source.etag,
      md5: source.checksumMd5,
      sha1: source.checksumSha1,
      sha256: source.checksumSha256,
      checksum,
      // The parts' checksums must use the object's algorithm.
      blobs: checksum === source.checksum ? blobs : blobs.map(({ partChecksum: _partChecksum, ...blob }) => blob),
      condition,
    })
    return copyResult('CopyObjectResult', made)
  })
}
