import { createHash, hash, randomBytes } from 'node:crypto'
import { BadRequest, Conflict, NotFound, PreconditionFailed } from '@platform/errors/api-error'
import { type Db, one } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { newId } from '@platform/runtime/new-id'
import { and, asc, desc, eq, inArray, lt, max, ne, sql } from 'drizzle-orm'
import type { Actor, Deps } from '../../deps.ts'
import type { Bucket } from '../storage/buckets.ts'
import { commitObjectWithin, type LiveBlob, type NewObject } from '../storage/commit-object.ts'
import { enlivenBlobs } from '../storage/enliven-blobs.ts'
import type { NewBlob } from '../storage/receive-body.ts'
import { uploadBlobs, uploads } from '../storage/table.ts'
import type { Lease } from './leases.ts'
import type { RunningHashes } from './running-hashes.ts'

const LIFETIME_MS = 86_400_000
/** What an object may hold (S3 API). */
export const OBJECT_BYTES_MAX = 5 * 1_024 ** 4

export type Upload = typeof uploads.$inferSelect

/** What a client declares of an object before it sends the bytes. */
export interface NewUpload {
  kind: 'session' | 'tus'
  bucket: Bucket | null
  key: string
  contentType?: string | undefined
  /** null: said later (tus, Upload-Defer-Length). */
  contentLength: number | null
  md5?: Buffer | null
  sha1?: Buffer | null
  sha256?: Buffer | null
  isPartial?: boolean
  isNewOnly?: boolean
  concatenates?: string | null
  uploadMetadata?: string | null
  createdBy: Actor
}

export const callerOf = (actor: Actor): string =>
  actor.kind === 'user' ? `user:${actor.userId}` : `application:${actor.applicationId}`

/** Begins an upload. token: goes into its URL and is kept nowhere; whoever has the URL may append (D12). */
export async function createUpload(db: Db, at: Date, given: NewUpload): Promise<{ upload: Upload; token: string }> {
  const token = randomBytes(24).toString('base64url')
  const rows = await db
    .insert(uploads)
    .values({
      id: newId(),
      kind: given.kind,
      bucketId: given.bucket?.id ?? null,
      key: given.key,
      contentType: given.contentType ?? 'application/octet-stream',
      headers: {},
      metadata: {},
      tags: {},
      contentLength: given.contentLength,
      checksumMd5: given.md5 ?? null,
      checksumSha1: given.sha1 ?? null,
      checksumSha256: given.sha256 ?? null,
      isPartial: given.isPartial ?? false,
      isNewOnly: given.isNewOnly ?? false,
      concatenates: given.concatenates ?? null,
      uploadMetadata: given.uploadMetadata ?? null,
      createdBy: callerOf(given.createdBy),
      tokenHash: hash('sha256', token, 'buffer'),
      state: 'pending',
      expiresAt: new Date(at.getTime() + LIFETIME_MS),
      createdAt: at,
      updatedAt: at,
    })
    .returning()
  return { upload: one(rows), token }
}

/** An upload as it is now: one whose time is over reads as expired even before the worker has seen it. */
export const stateOf = (upload: Pick<Upload, 'state' | 'expiresAt'>, at: Date): Upload['state'] =>
  (upload.state === 'pending' || upload.state === 'ready') && upload.expiresAt <= at ? 'expired' : upload.state

/** All upload sessions of a bucket, newest first (A §1 Whole set). */
export const listSessions = ({ db }: Pick<Deps, 'db'>, bucketId: string): Promise<Upload[]> =>
  db
    .select()
    .from(uploads)
    .where(and(eq(uploads.bucketId, bucketId), eq(uploads.kind, 'session')))
    .orderBy(desc(uploads.id))

/** An upload session of a bucket. Throws NotFound. */
export async function getSession({ db }: Pick<Deps, 'db'>, bucketId: string, id: string): Promise<Upload> {
  const [session] = await db
    .select()
    .from(uploads)
    .where(and(eq(uploads.id, id), eq(uploads.bucketId, bucketId), eq(uploads.kind, 'session')))
  if (!session) throw new NotFound('Upload session')
  return session
}

/** The upload that a URL names; the token in the URL is the authority (D12). */
export async function findUploadByToken(
  { db }: Pick<Deps, 'db'>,
  id: string,
  token: string,
): Promise<Upload | undefined> {
  const [upload] = await db
    .select()
    .from(uploads)
    .where(and(eq(uploads.id, id), eq(uploads.tokenHash, hash('sha256', token, 'buffer'))))
  return upload
}

/** The bytes are not what was declared: nothing of them is kept. */
export class ChecksumMismatch extends BadRequest {}

type Digests = ReturnType<RunningHashes['digest']>

/** Refuses what is not as it was declared. */
function demandDeclared(upload: Upload, digests: Digests): void {
  const declared = [
    ['MD5', upload.checksumMd5, digests.md5],
    ['SHA-1', upload.checksumSha1, digests.sha1],
    ['SHA-256', upload.checksumSha256, digests.sha256],
  ] as const
  for (const [name, expected, found] of declared)
    if (expected && !(found && expected.equals(found)))
      throw new ChecksumMismatch(`The ${name} of the bytes is not the one that was declared`)
}

/** The blobs of an upload in order. */
const blobsOf = (db: Db, uploadId: string): Promise<LiveBlob[]> =>
  db
    .select({ id: uploadBlobs.blobId, length: uploadBlobs.length })
    .from(uploadBlobs)
    .where(eq(uploadBlobs.uploadId, uploadId))
    .orderBy(asc(uploadBlobs.part), asc(uploadBlobs.n))

/** Makes an object of a whole upload, within the transaction that completes it. */
async function becomeObject(
  tx: Db,
  at: Date,
  upload: Upload,
  facts: Pick<NewObject, 'etag' | 'md5' | 'sha1' | 'sha256'>,
): Promise<void> {
  if (upload.bucketId === null) throw new NotFound('Bucket')
  const object = await commitObjectWithin(tx, at, upload.bucketId, {
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
    .set({ state: 'completed', objectId: object.id, uploadedAt: at, updatedAt: at, hashState: null })
    .where(eq(uploads.id, upload.id))
}

/** Ends an upload that cannot become an object any more, with the reason; its bytes are given up. */
async function failUpload({ db, now }: Pick<Deps, 'db' | 'now'>, id: string, reason: string): Promise<void> {
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

/** Runs what completes an upload; where that can never be, the upload has failed. */
export async function completing<T>(deps: Pick<Deps, 'db' | 'now'>, id: string, work: () => Promise<T>): Promise<T> {
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

/** Completes an upload of no bytes, which nobody will ever append to. */
export async function completeEmpty(tx: Db, at: Date, upload: Upload): Promise<void> {
  const digests = { md5: md5OfNothing, sha1: sha1OfNothing, sha256: sha256OfNothing }
  demandDeclared(upload, digests)
  if (upload.isPartial)
    await tx.update(uploads).set({ state: 'completed', checksumMd5: digests.md5 }).where(eq(uploads.id, upload.id))
  else await becomeObject(tx, at, upload, { etag: digests.md5.toString('hex'), ...digests })
}

/**
 * Appends what was received, and with the last byte makes the object, in one transaction: an offset that was acknowledged
 * is of bytes that are durable. Answers the upload as it is then.
 *
 * Throws Conflict when another request has taken the upload over, ChecksumMismatch, PreconditionFailed, NotFound.
 */
export async function appendToUpload(
  deps: Pick<Deps, 'db' | 'now'>,
  lease: Lease,
  upload: Upload,
  received: { blobs: readonly NewBlob[]; length: number },
  hashes: RunningHashes,
): Promise<Upload> {
  const at = deps.now()
  const offset = upload.offset + received.length
  const isWhole = offset === upload.contentLength
  const hashState = isWhole ? null : hashes.save()
  const digests = isWhole ? hashes.digest() : undefined
  return completing(deps, upload.id, async () => {
    if (digests) demandDeclared(upload, digests)
    return deps.db.transaction(async (tx) => {
      const [moved] = await tx
        .update(uploads)
        .set({ offset, hashState, state: 'ready', updatedAt: at, contentLength: upload.contentLength })
        .where(and(eq(uploads.id, upload.id), eq(uploads.leaseHolder, lease.holder), eq(uploads.offset, upload.offset)))
        .returning()
      if (!moved) throw new Conflict('Another request is writing to this upload')
      await enlivenBlobs(tx, at, received.blobs)
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
            uploadedAt: at,
          })),
        )
      if (!digests) return moved
      if (upload.isPartial) {
        // A part of a whole to come keeps its bytes and its MD5, of which the whole's etag is made.
        await tx
          .update(uploads)
          .set({ state: 'completed', uploadedAt: at, checksumMd5: digests.md5 })
          .where(eq(uploads.id, upload.id))
        return { ...moved, state: 'completed' }
      }
      await becomeObject(tx, at, moved, { etag: digests.md5.toString('hex'), ...digests })
      return { ...moved, state: 'completed' }
    })
  })
}

/**
 * Puts finished partial uploads together, in the order given: rows only, whatever their size. digests: of the whole, where
 * it declared some and was read once more. Throws Conflict when one of them is not finished.
 */
export async function concatenateUploads(
  deps: Pick<Deps, 'db' | 'now'>,
  whole: Upload,
  parts: readonly Upload[],
  digests: Digests | undefined,
): Promise<void> {
  const at = deps.now()
  await completing(deps, whole.id, async () => {
    if (digests) demandDeclared(whole, digests)
    await deps.db.transaction(async (tx) => {
      await tx.execute(sql`insert into ${uploadBlobs} (upload_id, part, n, blob_id, length, uploaded_at)
        select ${whole.id}::uuid, row_number() over (order by p.n, b.part, b.n), 0, b.blob_id, b.length, ${at.toISOString()}::timestamptz
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
      if (moved) await becomeObject(tx, at, moved, { etag, ...digests })
    })
  })
}

/** Gives up the bytes of uploads whose time is over, and forgets them a day later. */
export async function expireUploads({ db, now }: Pick<Deps, 'db' | 'now'>): Promise<void> {
  const at = now()
  const isOver = lt(uploads.expiresAt, at)
  await db
    .update(uploads)
    .set({ state: 'expired', hashState: null, updatedAt: at })
    .where(and(isOver, inArray(uploads.state, ['pending', 'ready'])))
  await db.delete(uploadBlobs).where(
    inArray(
      uploadBlobs.uploadId,
      db
        .select({ id: uploads.id })
        .from(uploads)
        .where(and(isOver, ne(uploads.state, 'completed'))),
    ),
  )
  await discardBefore(db, uploads.expiresAt, new Date(at.getTime() - LIFETIME_MS))
}

/** Ends an upload for good; what it held is collected. */
export async function terminateUpload({ db }: Pick<Deps, 'db'>, id: string): Promise<void> {
  await db.delete(uploads).where(eq(uploads.id, id))
}
