import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { readPartNumber } from '@platform/s3-protocol/wire/part-number'
import { quotedEtag } from '@platform/s3-protocol/wire/preconditions'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, eq, inArray } from 'drizzle-orm'
import type { LiveBlob } from '../../storage/commit-object.ts'
import { enlivenBlobs } from '../../storage/enliven-blobs.ts'
import type { NewBlob } from '../../storage/receive-body.ts'
import { blobs, uploadBlobs } from '../../storage/table.ts'
import { isOpen, getUpload, lockUpload, type PartChecksum, writePartChecksum } from '../multipart-upload.ts'
import { receiveObject } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'

interface NewPart {
  number: number
  blobs: readonly (NewBlob | LiveBlob)[]
  etag: string
  checksum: PartChecksum | undefined
}

const isNew = (blob: NewBlob | LiveBlob): blob is NewBlob => 'crc32' in blob

/** The blob of an empty part: it has to be somewhere that a part was uploaded. */
const nothing = (): NewBlob => ({ id: newId(), length: 0, crc32: 0, content: Buffer.alloc(0) })

/** Makes new blobs live, and holds those that are against their collection. Throws NoSuchKey for bytes that are gone. */
async function enliven(tx: Db, at: Date, pieces: NewPart['blobs']): Promise<void> {
  await enlivenBlobs(tx, at, pieces.filter(isNew))
  const referred = [...new Set(pieces.flatMap((blob) => (isNew(blob) ? [] : [blob.id])))]
  if (referred.length === 0) return
  const held = await tx
    .select({ id: blobs.id })
    .from(blobs)
    .where(and(inArray(blobs.id, referred), eq(blobs.state, 'live')))
    .for('key share')
  if (held.length < referred.length) throw s3Failure('NoSuchKey')
}

/**
 * Makes blobs a part of an upload, in the place of what had its number before; the bytes of that go with the next
 * collection. One transaction: a part is there whole or not at all, and of two with one number the later one.
 *
 * Throws NoSuchUpload; NoSuchKey where bytes that were to be copied are gone.
 */
export async function commitPart(call: KeyedCall, part: NewPart): Promise<Date> {
  const { deps } = call
  const at = deps.now()
  const pieces = part.blobs.length > 0 ? part.blobs : [nothing()]
  await deps.db.transaction(async (tx) => {
    const upload = await lockUpload(tx, call)
    if (!isOpen(upload, at)) throw s3Failure('NoSuchUpload')
    await enliven(tx, at, pieces)
    await tx.delete(uploadBlobs).where(and(eq(uploadBlobs.uploadId, upload.id), eq(uploadBlobs.part, part.number)))
    await tx.insert(uploadBlobs).values(
      pieces.map(({ id, length }, n) => ({
        uploadId: upload.id,
        part: part.number,
        n,
        blobId: id,
        length,
        etag: part.etag,
        checksum: writePartChecksum(part.checksum),
        uploadedAt: at,
      })),
    )
  })
  return at
}

/** UploadPart. The upload is looked for before the body is asked for. */
export async function uploadPart(call: KeyedCall): Promise<S3Reply> {
  const { headers, target, bucket } = call
  const number = readPartNumber(target.query.get('partNumber') ?? '')
  refuseHeaders(headers, bucket.visibility)
  const upload = await getUpload(call)
  return receiveObject(
    call,
    async ({ received, checksum }) => {
      const etag = received.md5.toString('hex')
      await commitPart(call, { number, blobs: received.blobs, etag, checksum })
      return {
        status: 200,
        headers: { etag: quotedEtag(etag), ...(checksum && { [checksumHeader(checksum.algorithm)]: checksum.value }) },
      }
    },
    upload.checksumAlgorithm ?? undefined,
  )
}
