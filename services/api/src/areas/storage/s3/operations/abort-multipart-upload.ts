import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { eq } from 'drizzle-orm'
import { uploads } from '../../objects/table.ts'
import { isOpen, lockUpload } from '../multipart-upload.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'

/** AbortMultipartUpload: deletes its row and parts; their bytes go with the next collection. Throws NoSuchUpload. */
export async function abortMultipartUpload(call: KeyedCall): Promise<S3Reply> {
  await call.deps.db.transaction(async (tx) => {
    const upload = await lockUpload(tx, call)
    if (!isOpen(upload, call.deps.now())) throw s3Failure('NoSuchUpload')
    await tx.delete(uploads).where(eq(uploads.id, upload.id))
  })
  return { status: 204 }
}
