import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { LiveBlob } from '../objects/commit-object.ts'
import type { NewBlob } from '../objects/receive-body.ts'
import { replacePart } from '../uploads/replace-part.ts'
import { isOpen, lockUpload, type PartChecksum, writePartChecksum } from './multipart-upload.ts'
import type { KeyedCall } from './s3-call.ts'

interface NewPart {
  number: number
  blobs: readonly (NewBlob | LiveBlob)[]
  etag: string
  checksum: PartChecksum | undefined
}

/**
 * Turns blobs into a part of an upload, replacing an earlier part of that number. One transaction: a part exists whole or not at
 * all, and of two with one number the later one stays.
 *
 * Throws NoSuchUpload; NoSuchKey if bytes to be copied are gone.
 */
export async function commitPart(call: KeyedCall, part: NewPart): Promise<Date> {
  const { deps } = call
  const time = deps.now()
  await deps.db.transaction(async (tx) => {
    const upload = await lockUpload(tx, call)
    if (!isOpen(upload, time)) throw s3Failure('NoSuchUpload')
    const checksum = writePartChecksum(part.checksum)
    if (!(await replacePart(tx, time, upload.id, { ...part, checksum }))) throw s3Failure('NoSuchKey')
  })
  return time
}
