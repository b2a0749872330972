import { isLowerCaseUuid } from '@platform/runtime/is-uuid'
import type { Db } from '@platform/runtime/database'
import type { ChecksumAlgorithm } from '@platform/s3-protocol/body/checksum'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, asc, eq, gt, sql } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { uploadBlobs, uploads } from '../objects/table.ts'
import type { KeyedCall } from './s3-call.ts'

export type MultipartUpload = typeof uploads.$inferSelect

/** The upload id in the query. Throws NoSuchUpload if it is not a UUID. */
function readUploadId({ target }: KeyedCall): string {
  const id = target.query.get('uploadId') ?? ''
  if (!isLowerCaseUuid(id)) throw s3Failure('NoSuchUpload', undefined, { UploadId: id.slice(0, 100) })
  return id
}

const isOf = ({ bucket, key }: KeyedCall, id: string) =>
  and(eq(uploads.id, id), eq(uploads.kind, 's3'), eq(uploads.bucketId, bucket.id), eq(uploads.key, key))

/** True if the upload still accepts parts. */
export const isOpen = ({ state, expiresAt }: MultipartUpload, now: Date): boolean =>
  state === 'pending' && expiresAt > now

const gone = (id: string) => s3Failure('NoSuchUpload', undefined, { UploadId: id })

/** The open multipart upload that a request names. Throws NoSuchUpload. */
export async function getUpload(call: KeyedCall): Promise<MultipartUpload> {
  const id = readUploadId(call)
  const [upload] = await call.deps.db.select().from(uploads).where(isOf(call, id))
  if (!upload || !isOpen(upload, call.deps.now())) throw gone(id)
  return upload
}

/**
 * The multipart upload that a request names, in any state, with its row locked until the transaction ends: this serializes
 * changes to its parts. Throws NoSuchUpload.
 */
export async function lockUpload(tx: Db, call: KeyedCall): Promise<MultipartUpload> {
  const id = readUploadId(call)
  const [upload] = await tx.select().from(uploads).where(isOf(call, id)).for('no key update')
  if (!upload) throw gone(id)
  return upload
}

/** An uploaded part. */
export interface StoredPart {
  part: number
  length: number
  /** The MD5 in hex. */
  etag: string
  checksum: PartChecksum | undefined
  uploadedAt: Date
}

/** A part's additional checksum, stored as `ALGORITHM:value`, since the upload itself may declare no algorithm. */
export interface PartChecksum {
  algorithm: ChecksumAlgorithm
  value: string
}

export const writePartChecksum = (checksum: PartChecksum | undefined): string | null =>
  checksum ? `${checksum.algorithm}:${checksum.value}` : null

function readPartChecksum(text: string | null): PartChecksum | undefined {
  if (text === null) return undefined
  const index = text.indexOf(':')
  return { algorithm: text.slice(0, index) as ChecksumAlgorithm, value: text.slice(index + 1) }
}

/** The parts of an upload after number `after` in order, at most `limit`. */
export async function listStoredParts(
  { db }: Pick<StorageDeps, 'db'>,
  uploadId: string,
  { after = 0, limit = 10_001 } = {},
): Promise<StoredPart[]> {
  const rows = await db
    .select({
      part: uploadBlobs.part,
      length: sql<number>`sum(${uploadBlobs.length})`.mapWith(Number),
      etag: sql<string>`min(${uploadBlobs.etag})`,
      checksum: sql<string | null>`min(${uploadBlobs.checksum})`,
      uploadedAt: sql<Date>`min(${uploadBlobs.uploadedAt})`.mapWith(uploadBlobs.uploadedAt),
    })
    .from(uploadBlobs)
    .where(and(eq(uploadBlobs.uploadId, uploadId), gt(uploadBlobs.part, after)))
    .groupBy(uploadBlobs.part)
    .orderBy(asc(uploadBlobs.part))
    .limit(limit)
  return rows.map(({ checksum, ...part }) => ({ ...part, checksum: readPartChecksum(checksum) }))
}
