import { newId } from '@platform/runtime/new-id'
import type { Db } from '@platform/runtime/database'
import { and, eq, inArray } from 'drizzle-orm'
import type { LiveBlob } from '../objects/commit-object.ts'
import { activateBlobs } from '../objects/activate-blobs.ts'
import type { NewBlob } from '../objects/receive-body.ts'
import { blobs, uploadBlobs } from '../objects/table.ts'

interface NewPart {
  number: number
  blobs: readonly (NewBlob | LiveBlob)[]
  /** The MD5 in hex. */
  etag: string
  checksum: string | null
}

const isNew = (blob: NewBlob | LiveBlob): blob is NewBlob => 'crc32' in blob

/** The blob of an empty part; its row records that the part was uploaded. */
const nothing = (): NewBlob => ({ id: newId(), length: 0, crc32: 0, content: Buffer.alloc(0) })

/** Activates new blobs, and locks live ones against garbage collection. Returns false if a live one is gone. */
async function activate(tx: Db, time: Date, pieces: NewPart['blobs']): Promise<boolean> {
  await activateBlobs(tx, time, pieces.filter(isNew))
  const referred = [...new Set(pieces.flatMap((blob) => (isNew(blob) ? [] : [blob.id])))]
  if (referred.length === 0) return true
  const held = await tx
    .select({ id: blobs.id })
    .from(blobs)
    .where(and(inArray(blobs.id, referred), eq(blobs.state, 'live')))
    .for('key share')
  return held.length === referred.length
}

/**
 * Turns blobs into a part of an upload whose row the transaction has locked, replacing an earlier part of that number, whose
 * bytes are removed by the next collection. Returns false if bytes to be copied are gone: do not commit the transaction then.
 *
 * Throws NotFound if new bytes were discarded meanwhile.
 */
export async function replacePart(tx: Db, time: Date, uploadId: string, part: NewPart): Promise<boolean> {
  const pieces = part.blobs.length > 0 ? part.blobs : [nothing()]
  if (!(await activate(tx, time, pieces))) return false
  await tx.delete(uploadBlobs).where(and(eq(uploadBlobs.uploadId, uploadId), eq(uploadBlobs.part, part.number)))
  await tx.insert(uploadBlobs).values(
    pieces.map(({ id, length }, n) => ({
      uploadId,
      part: part.number,
      n,
      blobId: id,
      length,
      etag: part.etag,
      checksum: part.checksum,
      uploadedAt: time,
    })),
  )
  return true
}
