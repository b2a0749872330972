import { readCount, readEncoding } from '@platform/s3-protocol/wire/list-parameters'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { quotedEtag } from '@platform/service/entity-tag'
import { writeBucketName } from '../bucket-name.ts'
import { getUpload, listStoredParts } from '../multipart-upload.ts'
import { ownerOf } from '../owner.ts'
import { type KeyedCall, type S3Reply, xmlReply } from '../s3-call.ts'

const PARTS_MAX = 1_000

/** ListParts: the parts after a number, in order. Throws NoSuchUpload. */
export async function listParts(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, target } = call
  const upload = await getUpload(call)
  const limit = readCount(target.query.get('max-parts'), 'max-parts', PARTS_MAX)
  const after = readCount(target.query.get('part-number-marker') ?? '0', 'part-number-marker', 10_000)
  const storedParts = limit === 0 ? [] : await listStoredParts(deps, upload.id, { after, limit: limit + 1 })
  const parts = storedParts.slice(0, limit)
  const owner = ownerOf(bucket)
  return xmlReply(
    writeXml('ListPartsResult', {
      Bucket: writeBucketName(bucket),
      Key: readEncoding(target.query.get('encoding-type')).write(key),
      UploadId: upload.id,
      Initiator: owner,
      Owner: owner,
      StorageClass: 'STANDARD',
      PartNumberMarker: after,
      NextPartNumberMarker: parts.at(-1)?.part ?? after,
      MaxParts: limit,
      IsTruncated: storedParts.length > parts.length,
      ...(upload.checksumAlgorithm && {
        ChecksumAlgorithm: upload.checksumAlgorithm,
        ChecksumType: upload.checksumType ?? undefined,
      }),
      Part: parts.map(({ part, uploadedAt, etag, length, checksum }) => ({
        PartNumber: part,
        LastModified: uploadedAt,
        ETag: quotedEtag(etag),
        Size: length,
        ...(checksum && { [`Checksum${checksum.algorithm}`]: checksum.value }),
      })),
    }),
  )
}
