import { createHash } from 'node:crypto'
import { type ChecksumAlgorithm, startSum, type Summing } from '@platform/s3-protocol/body/checksum'
import { readPartNumber } from '@platform/s3-protocol/wire/part-number'
import { readCopyRange } from '@platform/s3-protocol/wire/range'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { ByteRange } from '@platform/service/byte-range'
import type { LiveBlob, StoredObject } from '../../objects/commit-object.ts'
import { chunksOf, openObject } from '../../objects/read-object.ts'
import { commitPart } from '../commit-part.ts'
import { copyResult } from '../copy-result.ts'
import { getCopySource, listBlobs } from '../copy-source.ts'
import { getUpload, type PartChecksum } from '../multipart-upload.ts'
import { PUT_BYTES_MAX, receiveVerified } from '../receive-object.ts'
import type { KeyedCall, S3Call, S3Reply } from '../s3-call.ts'
import { withKeepAlive } from '../with-keep-alive.ts'

/** The blobs that make up exactly these bytes; undefined if the range begins or ends within a blob. */
function blobsOf(pieces: readonly LiveBlob[], { start, end }: ByteRange): LiveBlob[] | undefined {
  const within: LiveBlob[] = []
  let offset = 0
  for (const { id, length } of pieces) {
    const [first, last] = [offset, offset + length - 1]
    offset += length
    if (length === 0 || last < start || first > end) continue
    if (first < start || last > end) return undefined
    within.push({ id, length })
  }
  return within
}

interface Facts {
  etag: string
  checksum: PartChecksum | undefined
}

const digestOf = (sum: Summing | undefined, algorithm: ChecksumAlgorithm | undefined): PartChecksum | undefined =>
  sum && algorithm ? { algorithm, value: sum.digest().toString('base64') } : undefined

/** ETag and checksum, if they are stored with the source, so that no bytes have to be read. */
function knownFacts(source: StoredObject, algorithm: ChecksumAlgorithm | undefined): Facts | undefined {
  const { checksumMd5, checksum } = source
  if (!checksumMd5) return undefined
  if (!algorithm) return { etag: checksumMd5.toString('hex'), checksum: undefined }
  if (checksum?.algorithm !== algorithm || checksum.type !== 'FULL_OBJECT') return undefined
  return { etag: checksumMd5.toString('hex'), checksum: { algorithm, value: checksum.value } }
}

async function readFacts(
  { deps }: S3Call,
  source: StoredObject,
  range: ByteRange,
  algorithm: ChecksumAlgorithm | undefined,
): Promise<Facts> {
  const md5 = createHash('md5')
  const sum = algorithm && (await startSum(algorithm))
  for await (const chunk of chunksOf(openObject(deps, source, null, { range, chunks: 'borrowed' }))) {
    md5.update(chunk)
    sum?.update(chunk)
  }
  return { etag: md5.digest('hex'), checksum: digestOf(sum, algorithm) }
}

/** Copies a range that does not consist of whole blobs into new blobs, and commits it as a part. */
async function copyBytes(
  call: KeyedCall,
  source: StoredObject,
  range: ByteRange,
  number: number,
  algorithm: ChecksumAlgorithm | undefined,
): Promise<Facts & { uploadedAt: Date }> {
  const sum = algorithm && (await startSum(algorithm))
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const chunk of chunksOf(openObject(call.deps, source, null, { range }))) {
      sum?.update(chunk)
      yield chunk
    }
  }
  await using body = await receiveVerified(
    call,
    { bytes: bytes(), verify: () => digestOf(sum, algorithm) },
    range.end - range.start + 1,
  )
  const { blobs, checksum } = body
  const etag = body.md5.toString('hex')
  const uploadedAt = await commitPart(call, { number, blobs, etag, checksum })
  body.keep()
  return { etag, checksum, uploadedAt }
}

/**
 * UploadPartCopy: if the range consists of whole blobs, only rows are written, and bytes are read at most for their checksums;
 * otherwise the bytes are copied.
 *
 * Throws NoSuchUpload, NoSuchKey, InvalidArgument, InvalidRange, EntityTooLarge.
 */
export async function uploadPartCopy(call: KeyedCall): Promise<S3Reply> {
  const { deps, headers, target } = call
  const number = readPartNumber(target.query.get('partNumber') ?? '')
  const upload = await getUpload(call)
  const source = await getCopySource(call)
  const rangeHeader = headers.get('x-amz-copy-source-range')
  const range = rangeHeader === undefined ? undefined : readCopyRange(rangeHeader, source.contentLength)
  const sourceRange = range ?? { start: 0, end: source.contentLength - 1 }
  if (sourceRange.end - sourceRange.start + 1 > PUT_BYTES_MAX) throw s3Failure('EntityTooLarge')
  const algorithm = upload.checksumAlgorithm ?? undefined
  return withKeepAlive(call, async () => {
    const pieces = blobsOf(await listBlobs(deps, source), sourceRange)
    if (!pieces) {
      const { etag, checksum, uploadedAt } = await copyBytes(call, source, sourceRange, number, algorithm)
      return copyResult('CopyPartResult', {
        etag,
        uploadedAt,
        checksum: checksum ? { ...checksum, type: 'FULL_OBJECT' } : null,
      })
    }
    const isWhole = sourceRange.end - sourceRange.start + 1 === source.contentLength
    const known = isWhole ? knownFacts(source, algorithm) : undefined
    const { etag, checksum } = known ?? (await readFacts(call, source, sourceRange, algorithm))
    const uploadedAt = await commitPart(call, { number, blobs: pieces, etag, checksum })
    return copyResult('CopyPartResult', {
      etag,
      uploadedAt,
      checksum: checksum ? { ...checksum, type: 'FULL_OBJECT' } : null,
    })
  })
}
