import { createHash } from 'node:crypto'
import { BadRequest, Conflict, NotFound, PreconditionFailed } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import { and, asc, eq, inArray, max, sql } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { commitObjectWithin, type LiveBlob, type NewObject } from '../objects/commit-object.ts'
import { activateBlobs } from '../objects/activate-blobs.ts'
import type { NewBlob } from '../objects/receive-body.ts'
import { uploadBlobs, uploads } from '../objects/table.ts'
import type { Lease } from './leases.ts'
import type { RunningHashes } from './running-hashes.ts'
import type { Upload } from './uploads.ts'

/** 400: the bytes do not match the declared digest; none of them are kept. */
export class ChecksumMismatch extends BadRequest {}

type Digests = ReturnType<RunningHashes['digest']>

/** Throws ChecksumMismatch if a declared digest does not match. */
function requireDeclared(upload: Upload, digests: Digests): void {
  const declared = [
    ['MD5', upload.checksumMd5, digests.md5],
    ['SHA-1', upload.checksumSha1, digests.sha1],
    ['SHA-256', upload.checksumSha256, digests.sha256],
  ] as const
  for (const [name, expected, actual] of declared)
    if (expected && !(actual && expected.equals(actual)))
      throw new ChecksumMismatch(`The ${name} of the bytes is not the one that was declared`)
}

/** The blobs of an upload in order. */
const blobsOf = (db: Db, uploadId: string): Promise<LiveBlob[]> =>
  db
    .select({ id: uploadBlobs.blobId, length: uploadBlobs.length })
    .from(uploadBlobs)
    .where(eq(uploadBlobs.uploadId, uploadId))
    .orderBy(asc(uploadBlobs.part), asc(uploadBlobs.n))

/** Turns a complete upload into an object, within the transaction that completes it. */
async function becomeObject(
  tx: Db,
  time: Date,
  upload: Upload,
  facts: Pick<NewObject, 'etag' | 'md5' | 'sha1' | 'sha256'>,
): Promise<void> {
  if (upload.bucketId === null) throw new NotFound('Bucket')
  const object = await commitObjectWithin(tx, time, upload.bucketId, {
    key: upload.key,
    contentType: upload.contentType,
    contentLength: upload.contentLength ?? 0,
    uploadSessionId: upload.kind === 'session' ? upload.id : null,
    blobs: await blobsOf(tx, upload.id),
    condition: upload.isNewOnly ? { ifNoneMatch: true } : undefined,
    ...facts,
  })
  await tx.delete(uploadBlobs).where(eq(uploadBlobs.uploadId, upload.id))
  await tx
    .update(uploads)
    .set({ state: 'completed', objectId: object.id, uploadedAt: time, updatedAt: time, hashState: null })
    .where(eq(uploads.id, upload.id))
}

/** Fails an upload that can no longer become an object, with the reason; its bytes are discarded. */
async function failUpload({ db, now }: Pick<StorageDeps, 'db' | 'now'>, id: string, reason: string): Promise<void> {
  await db.transaction(async (tx) => {
    await tx
      .update(uploads)
      .set({ state: 'failed', failureReason: reason, updatedAt: now(), hashState: null })
      .where(and(eq(uploads.id, id), inArray(uploads.state, ['pending', 'ready'])))
    await tx.delete(uploadBlobs).where(eq(uploadBlobs.uploadId, id))
  })
}

const isFinal = (error: unknown): error is Error =>
  error instanceof ChecksumMismatch || error instanceof PreconditionFailed || error instanceof NotFound

/** Runs work that completes an upload. An error that a retry cannot avoid also fails the upload. */
async function completeOrFail<T>(
  deps: Pick<StorageDeps, 'db' | 'now'>,
  id: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isFinal(error)) await failUpload(deps, id, error.message)
    throw error
  }
}

const sha256OfNothing = createHash('sha256').digest()
const md5OfNothing = createHash('md5').digest()
const sha1OfNothing = createHash('sha1').digest()

/**
 * Completes a new upload of no bytes, to which nobody will ever append. Throws ChecksumMismatch, PreconditionFailed, NotFound.
 */
export async function completeEmpty(tx: Db, time: Date, upload: Upload): Promise<void> {
  const digests = { md5: md5OfNothing, sha1: sha1OfNothing, sha256: sha256OfNothing }
  requireDeclared(upload, digests)
  if (upload.isPartial)
    await tx.update(uploads).set({ state: 'completed', checksumMd5: digests.md5 }).where(eq(uploads.id, upload.id))
  else await becomeObject(tx, time, upload, { etag: digests.md5.toString('hex'), ...digests })
}

/** The same in a transaction of its own, for an upload that is already stored: if it cannot become an object, it fails. */
export const completeEmptyUpload = (deps: Pick<StorageDeps, 'db' | 'now'>, upload: Upload): Promise<void> =>
  completeOrFail(deps, upload.id, () => deps.db.transaction((tx) => completeEmpty(tx, deps.now(), upload)))

/**
 * Appends received blobs and, with the last byte, creates the object, in one transaction: bytes below an acknowledged offset are
 * durable. Also stores the `contentLength` of `upload` if the row has none. Returns the updated upload.
 *
 * Throws Conflict if another request has taken over the upload, ChecksumMismatch, PreconditionFailed, NotFound.
 */
export async function appendToUpload(
  deps: Pick<StorageDeps, 'db' | 'now'>,
  lease: Lease,
  upload: Upload,
  received: { blobs: readonly NewBlob[]; length: number },
  hashes: RunningHashes,
): Promise<Upload> {
  const time = deps.now()
  const offset = upload.offset + received.length
  const isWhole = offset === upload.contentLength
  const hashState = isWhole ? null : hashes.save()
  const digests = isWhole ? hashes.digest() : undefined
  return completeOrFail(deps, upload.id, async () => {
    if (digests) requireDeclared(upload, digests)
    return deps.db.transaction(async (tx) => {
      const [moved] = await tx
        .update(uploads)
        .set({ offset, hashState, state: 'ready', updatedAt: time, contentLength: upload.contentLength })
        .where(and(eq(uploads.id, upload.id), eq(uploads.leaseHolder, lease.holder), eq(uploads.offset, upload.offset)))
        .returning()
      if (!moved) throw new Conflict('Another request is writing to this upload')
      await activateBlobs(tx, time, received.blobs)
      const [last] = await tx
        .select({ part: max(uploadBlobs.part) })
        .from(uploadBlobs)
        .where(eq(uploadBlobs.uploadId, upload.id))
      const part = (last?.part ?? 0) + 1
      if (received.blobs.length > 0)
        await tx.insert(uploadBlobs).values(
          received.blobs.map(({ id, length }, n) => ({
            uploadId: upload.id,
            part,
            n,
            blobId: id,
            length,
            uploadedAt: time,
          })),
        )
      if (!digests) return moved
      if (upload.isPartial) {
        // A part of a future concatenation keeps its bytes and its MD5, from which the whole's ETag is computed.
        await tx
          .update(uploads)
          .set({ state: 'completed', uploadedAt: time, checksumMd5: digests.md5 })
          .where(eq(uploads.id, upload.id))
        return { ...moved, state: 'completed' }
      }
      await becomeObject(tx, time, moved, { etag: digests.md5.toString('hex'), ...digests })
      return { ...moved, state: 'completed' }
    })
  })
}

/**
 * Creates an object from finished partial uploads, in the given order. It moves rows but no bytes, whatever their size. digests:
 * of the whole, if it declared some. Throws ChecksumMismatch, PreconditionFailed, NotFound.
 */
export async function concatenateUploads(
  deps: Pick<StorageDeps, 'db' | 'now'>,
  whole: Upload,
  parts: readonly Upload[],
  digests: Digests | undefined,
): Promise<void> {
  const time = deps.now()
  await completeOrFail(deps, whole.id, async () => {
    if (digests) requireDeclared(whole, digests)
    await deps.db.transaction(async (tx) => {
      await tx.execute(sql`insert into ${uploadBlobs} (upload_id, part, n, blob_id, length, uploaded_at)
        select ${whole.id}::uuid, row_number() over (order by p.n, b.part, b.n), 0, b.blob_id, b.length, ${time.toISOString()}::timestamptz
        from json_array_elements_text(${JSON.stringify(parts.map(({ id }) => id))}::json) with ordinality p(id, n)
        join ${uploadBlobs} b on b.upload_id = p.id::uuid`)
      const md5s = createHash('md5')
      for (const { checksumMd5 } of parts) md5s.update(checksumMd5 ?? md5OfNothing)
      const etag = `${md5s.digest('hex')}-${parts.length}`
      const length = parts.reduce((sum, part) => sum + part.offset, 0)
      const [moved] = await tx
        .update(uploads)
        .set({ offset: length, contentLength: length })
        .where(eq(uploads.id, whole.id))
        .returning()
      if (moved) await becomeObject(tx, time, moved, { etag, ...digests })
    })
  })
}
