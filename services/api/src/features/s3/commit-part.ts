import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, eq, inArray } from 'drizzle-orm'
import type { LiveBlob } from '../storage/commit-object.ts'
import { enlivenBlobs } from '../storage/enliven-blobs.ts'
import type { NewBlob } from '../storage/receive-body.ts'
import { blobs, uploadBlobs } from '../storage/table.ts'
import { isOpen, lockUpload, type PartChecksum, writePartChecksum } from './multipart-upload.ts'
import type { KeyedCall } from './s3-call.ts'

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
