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

/** The blob of an empty part, whose row records that the part was uploaded. */
const nothing = (): NewBlob => ({ id: newId(), length: 0, crc32: 0, content: Buffer.alloc(0) })

/** Activates new blobs, and locks live ones against collection. Throws NoSuchKey for blobs that are gone. */
async function activate(tx: Db, at: Date, pieces: NewPart['blobs']): Promise<void> {
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
 * Makes blobs a part of an upload, in place of an earlier part of that number, whose bytes go with the next collection. One
 * transaction: a part exists whole or not at all, and of two with one number the later one stays.
 *
 * Throws NoSuchUpload; NoSuchKey if bytes to be copied are gone.
 */
export async function commitPart(call: KeyedCall, part: NewPart): Promise<Date> {
  const { deps } = call
  const at = deps.now()
  const pieces = part.blobs.length > 0 ? part.blobs : [nothing()]
  await deps.db.transaction(async (tx) => {
    const upload = await lockUpload(tx, call)
    if (!isOpen(upload, at)) throw s3Failure('NoSuchUpload')
    await activate(tx, at, pieces)
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
