import { readCount } from '@platform/s3-protocol/wire/list-parameters'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { and, asc, eq, gt, isNotNull, sql } from 'drizzle-orm'
import { objectBlobs } from '../../objects/table.ts'
import { type ObjectCall, type S3Reply, xmlReply } from '../s3-call.ts'

const ATTRIBUTES = ['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize']
const PARTS_MAX = 1_000

async function partsOf({ deps, headers, found }: ObjectCall): Promise<XmlElements | undefined> {
  const { id, checksum } = found.object
  const after = readCount(headers.get('x-amz-part-number-marker') ?? '0', 'x-amz-part-number-marker', 10_000)
  const limit = readCount(headers.get('x-amz-max-parts'), 'x-amz-max-parts', PARTS_MAX)
  const all = await deps.db
    .select({
      part: objectBlobs.part,
      length: sql<number>`sum(${objectBlobs.length})`.mapWith(Number),
      checksum: sql<string | null>`min(${objectBlobs.partChecksum})`,
    })
    .from(objectBlobs)
    .where(and(eq(objectBlobs.objectId, id), isNotNull(objectBlobs.part), gt(objectBlobs.part, 0)))
    .groupBy(objectBlobs.part)
    .orderBy(asc(objectBlobs.part))
  if (all.length === 0) return undefined
  const behind = all.filter(({ part }) => (part ?? 0) > after)
  const parts = behind.slice(0, limit)
  return {
    PartsCount: all.length,
    PartNumberMarker: after,
    NextPartNumberMarker: parts.at(-1)?.part ?? after,
    MaxParts: limit,
    IsTruncated: behind.length > parts.length,
    // Without checksums S3 reports only the number of parts.
    Part: checksum
      ? parts.map(({ part, length, checksum: value }) => ({
          PartNumber: part ?? 0,
          Size: length,
          [`Checksum${checksum.algorithm}`]: value ?? undefined,
        }))
      : [],
  }
}

/** GetObjectAttributes: the attributes listed in the header. Throws InvalidArgument. */
export async function getObjectAttributes(call: ObjectCall): Promise<S3Reply> {
  const { headers, found } = call
  const { etag, checksum, contentLength, uploadedAt } = found.object
  const attributeNames = (headers.get('x-amz-object-attributes') ?? '').split(',').map((name) => name.trim())
  if (!attributeNames.every((name) => ATTRIBUTES.includes(name)))
    throw s3Failure('InvalidArgument', `x-amz-object-attributes takes ${ATTRIBUTES.join(', ')}`)
  const attributes: Record<string, () => XmlElements[string] | Promise<XmlElements[string]>> = {
    ETag: () => etag,
    Checksum: () =>
      checksum ? { [`Checksum${checksum.algorithm}`]: checksum.value, ChecksumType: checksum.type } : undefined,
    ObjectParts: () => partsOf(call),
    StorageClass: () => 'STANDARD',
    ObjectSize: () => contentLength,
  }
  const written: Record<string, XmlElements[string]> = {}
  for (const name of ATTRIBUTES) {
    const content = attributeNames.includes(name) ? await attributes[name]?.() : undefined
    if (content !== undefined) written[name] = content
  }
  return xmlReply(writeXml('GetObjectAttributesResponse', written), { 'last-modified': uploadedAt.toUTCString() })
}
