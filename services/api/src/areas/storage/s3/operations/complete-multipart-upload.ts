import { createHash } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { checksumAlgorithms, checksumHeader, startSum } from '@platform/s3-protocol/body/checksum'
import { combineCrcs } from '@platform/s3-protocol/body/combine-crcs'
import {
  checkWriteCondition,
  readWriteCondition,
  type WriteCondition,
} from '@platform/s3-protocol/wire/check-conditions'
import { readPartNumber } from '@platform/s3-protocol/wire/part-number'
import { childText, readXml, type XmlNode } from '@platform/s3-protocol/wire/read-xml'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { bareEtag, quotedEtag } from '@platform/service/entity-tag'
import { and, asc, eq } from 'drizzle-orm'
import { commitObjectWithin, type ObjectBlob, type StoredObject } from '../../objects/commit-object.ts'
import { findObject } from '../../objects/read-object.ts'
import { type ObjectChecksum, objects, uploadBlobs, uploads } from '../../objects/table.ts'
import { writeBucketName } from '../bucket-name.ts'
import {
  isOpen,
  listStoredParts,
  lockUpload,
  type MultipartUpload,
  type PartChecksum,
  type StoredPart,
} from '../multipart-upload.ts'
import { objectLocation } from '../object-location.ts'
import { readSmallBody } from '../read-small-body.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'
import { asMissing } from '../store-object.ts'
import { withKeepAlive } from '../with-keep-alive.ts'

const PARTS_MAX = 10_000
const ELEMENTS_MAX = PARTS_MAX * 9
const BODY_BYTES_MAX = 8 * 1_024 ** 2
/** Minimum length of every part but the last (S3 API). */
const PART_BYTES_MIN = 5 * 1_024 ** 2
const OBJECT_BYTES_MAX = 5 * 1_024 ** 4

/** A part as the client lists it. */
interface ListedPart {
  part: number
  etag: string
  checksums: PartChecksum[]
}

function readListedPart(node: XmlNode): ListedPart {
  const number = childText(node, 'PartNumber')
  const etag = childText(node, 'ETag')
  if (node.name !== 'Part' || number === undefined || etag === undefined) throw s3Failure('MalformedXML')
  const checksums = checksumAlgorithms.flatMap((algorithm) => {
    const value = childText(node, `Checksum${algorithm}`)
    return value === undefined || value === '' ? [] : [{ algorithm, value }]
  })
  return { part: readPartNumber(number), etag: bareEtag(etag), checksums }
}

/** Reads the list of parts. Throws MalformedXML if it is empty or has over 10,000, InvalidPartOrder, InvalidArgument. */
function readPartList(body: Buffer): ListedPart[] {
  const { children } = readXml(body, 'CompleteMultipartUpload', ELEMENTS_MAX)
  if (children.length === 0 || children.length > PARTS_MAX)
    throw s3Failure('MalformedXML', `The document must list 1 to ${PARTS_MAX} parts`)
  const listed = children.map(readListedPart)
  listed.forEach(({ part }, i) => {
    if (i > 0 && part <= (listed[i - 1]?.part ?? 0)) throw s3Failure('InvalidPartOrder')
  })
  return listed
}

/** The ETag of a multipart object: the MD5 of its parts' MD5s, and the number of parts. */
function etagOfParts(parts: readonly { etag: string }[]): string {
  const md5 = createHash('md5')
  for (const { etag } of parts) md5.update(etag, 'hex')
  return `${md5.digest('hex')}-${parts.length}`
}

/**
 * Finds the listed parts among the stored ones and checks that ETags, checksums and sizes are right.
 * Throws InvalidPart, EntityTooSmall, EntityTooLarge.
 */
function matchParts(listed: readonly ListedPart[], stored: readonly StoredPart[]): StoredPart[] {
  const byNumber = new Map(stored.map((part) => [part.part, part]))
  const matched = listed.map(({ part, etag, checksums }) => {
    const storedPart = byNumber.get(part)
    const isSame =
      storedPart?.etag === etag &&
      checksums.every(
        ({ algorithm, value }) => storedPart.checksum?.algorithm === algorithm && storedPart.checksum.value === value,
      )
    if (!storedPart || !isSame)
      throw s3Failure('InvalidPart', undefined, { PartNumber: String(part), ETag: etag.slice(0, 100) })
    return storedPart
  })
  for (const { part, length, etag } of matched.slice(0, -1)) {
    if (length < PART_BYTES_MIN)
      throw s3Failure('EntityTooSmall', undefined, {
        PartNumber: String(part),
        ETag: etag,
        ProposedSize: String(length),
        MinSizeAllowed: String(PART_BYTES_MIN),
      })
  }
  if (lengthOf(matched) > OBJECT_BYTES_MAX) throw s3Failure('EntityTooLarge')
  return matched
}

const lengthOf = (parts: readonly StoredPart[]): number => parts.reduce((sum, { length }) => sum + length, 0)

/** Computes the object's checksum from those of its parts, if the upload declared one (S3 API "Checking object integrity"). */
async function checksumOfParts(
  { checksumAlgorithm: algorithm, checksumType: type }: MultipartUpload,
  parts: readonly StoredPart[],
): Promise<ObjectChecksum | null> {
  if (!algorithm || !type) return null
  const digests = parts.map(({ part, length, checksum }) => {
    if (checksum?.algorithm !== algorithm) throw s3Failure('InvalidPart', undefined, { PartNumber: String(part) })
    return { digest: Buffer.from(checksum.value, 'base64'), length }
  })
  if (type === 'FULL_OBJECT') return { algorithm, type, value: combineCrcs(algorithm, digests).toString('base64') }
  return { algorithm, type, value: await compositeOf(algorithm, digests) }
}

/** The checksum of the parts' checksums, and their number. */
async function compositeOf(
  algorithm: ObjectChecksum['algorithm'],
  parts: readonly { digest: Buffer }[],
): Promise<string> {
  const sum = await startSum(algorithm)
  for (const { digest } of parts) sum.update(digest)
  return `${sum.digest().toString('base64')}-${parts.length}`
}

/** Checks the size and checksum that the request declares for the whole object. Throws BadDigest, InvalidRequest. */
function checkWhole(headers: ReadonlyMap<string, string>, checksum: ObjectChecksum | null, length: number): void {
  const size = headers.get('x-amz-mp-object-size')
  if (size !== undefined && size !== String(length))
    throw s3Failure('InvalidRequest', 'x-amz-mp-object-size is not the size of the parts together')
  const type = headers.get('x-amz-checksum-type')
  if (type !== undefined && type.toUpperCase() !== checksum?.type)
    throw s3Failure('InvalidRequest', 'x-amz-checksum-type is not that of the upload')
  for (const algorithm of checksumAlgorithms) {
    const value = headers.get(checksumHeader(algorithm))
    if (value === undefined) continue
    if (algorithm !== checksum?.algorithm)
      throw s3Failure('InvalidRequest', `The upload was not created for ${algorithm}`)
    if (value !== checksum.value && value !== checksum.value.split('-')[0])
      throw s3Failure('BadDigest', `The ${algorithm} you specified did not match the calculated checksum.`)
  }
}

/** The blobs of the parts in order, each with its part number. */
async function blobsOfParts(tx: Db, upload: MultipartUpload, parts: readonly StoredPart[]): Promise<ObjectBlob[]> {
  const byNumber = new Map(parts.map((part) => [part.part, part]))
  const rows = await tx
    .select({ id: uploadBlobs.blobId, length: uploadBlobs.length, part: uploadBlobs.part })
    .from(uploadBlobs)
    .where(eq(uploadBlobs.uploadId, upload.id))
    .orderBy(asc(uploadBlobs.part), asc(uploadBlobs.n))
  return rows.flatMap(({ id, length, part }) => {
    const used = byNumber.get(part)
    return used ? [{ id, length, part, partChecksum: upload.checksumAlgorithm ? used.checksum?.value : undefined }] : []
  })
}

/** Returns the object of a completed upload, for a client that repeats the request because the first answer was lost. */
async function answerAgain(tx: Db, upload: MultipartUpload, etag: string): Promise<StoredObject> {
  const [object] = upload.objectId ? await tx.select().from(objects).where(eq(objects.id, upload.objectId)) : []
  if (upload.state !== 'completed' || object?.etag !== etag)
    throw s3Failure('NoSuchUpload', undefined, { UploadId: upload.id })
  return object
}

async function complete(
  call: KeyedCall,
  listed: readonly ListedPart[],
  condition: WriteCondition,
): Promise<StoredObject> {
  const { deps, bucket, key, headers } = call
  const time = deps.now()
  return deps.db.transaction(async (tx) => {
    const upload = await lockUpload(tx, call)
    if (!isOpen(upload, time)) return answerAgain(tx, upload, etagOfParts(listed))
    if (condition) checkWriteCondition(condition, await findObject({ db: tx }, bucket.id, key))
    const parts = matchParts(listed, await listStoredParts({ db: tx }, upload.id))
    const checksum = await checksumOfParts(upload, parts)
    const contentLength = lengthOf(parts)
    checkWhole(headers, checksum, contentLength)
    const object = await commitObjectWithin(tx, time, bucket.id, {
      key,
      contentType: upload.contentType,
      headers: upload.headers,
      metadata: upload.metadata,
      tags: upload.tags,
      contentLength,
      etag: etagOfParts(parts),
      checksum,
      blobs: await blobsOfParts(tx, upload, parts),
      condition,
    })
    // Only now does the object refer to its blobs; parts that were uploaded but not listed are left to the collector.
    await tx.delete(uploadBlobs).where(eq(uploadBlobs.uploadId, upload.id))
    await tx
      .update(uploads)
      .set({ state: 'completed', objectId: object.id, uploadedAt: time, updatedAt: time })
      .where(and(eq(uploads.id, upload.id), eq(uploads.state, 'pending')))
    return object
  })
}

/**
 * CompleteMultipartUpload: moves rows but no bytes, whatever the size; the statement that writes also checks the condition. A
 * repeated request with the same parts gets the same answer.
 *
 * Throws MalformedXML, InvalidPart, InvalidPartOrder, EntityTooSmall, NoSuchUpload, PreconditionFailed, BadDigest.
 */
export async function completeMultipartUpload(call: KeyedCall): Promise<S3Reply> {
  const { exchange, target, bucket, key, headers } = call
  const condition = readWriteCondition(headers)
  const listed = readPartList(await readSmallBody(withoutChecksum(call), BODY_BYTES_MAX))
  return withKeepAlive(call, async () => {
    const { etag, checksum } = await complete(call, listed, condition).catch((error: unknown) => {
      throw asMissing(error)
    })
    return writeXml('CompleteMultipartUploadResult', {
      Location: objectLocation(exchange, target, { bucket: writeBucketName(bucket), key }),
      Bucket: writeBucketName(bucket),
      Key: key,
      ETag: quotedEtag(etag),
      ...(checksum && { [`Checksum${checksum.algorithm}`]: checksum.value, ChecksumType: checksum.type }),
    })
  })
}

/** This request's checksum headers describe the object, not the document in its body. */
const withoutChecksum = (call: KeyedCall): KeyedCall => ({
  ...call,
  headers: new Map([...call.headers].filter(([name]) => !checksumNames.has(name))),
})
const checksumNames = new Set(checksumAlgorithms.map(checksumHeader))
