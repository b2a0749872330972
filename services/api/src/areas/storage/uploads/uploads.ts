import { hash, randomBytes } from 'node:crypto'
import { NotFound } from '@platform/errors/api-error'
import { type Db, one } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, inArray, lt, ne } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import { requireStorageWrite } from '../objects/stored-bytes.ts'
import type { Bucket } from '../objects/buckets.ts'
import { buckets, uploadBlobs, uploads } from '../objects/table.ts'

const LIFETIME_MS = 86_400_000
/** Maximum size of an object in bytes (S3 API). */
export const OBJECT_BYTES_MAX = 5 * 1_024 ** 4

export type Upload = typeof uploads.$inferSelect

/** What a client declares about an object before it sends the bytes. */
export interface NewUpload {
  kind: 'session' | 'tus'
  bucket: Bucket | null
  key: string
  contentType?: string | undefined
  /** null: declared later (tus, Upload-Defer-Length). */
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

/**
 * The creator of an upload, as stored in its row: all keys of an application count as the application, its Functions as one per
 * environment.
 */
export function callerOf(actor: Actor): string {
  switch (actor.kind) {
    case 'user':
      return `user:${actor.userId}`
    case 'key':
      return `application:${actor.applicationId}`
    case 'function':
      return `environment:${actor.environmentId}`
  }
}

/** Creates an upload. token: goes into its URL and is stored only as a hash; whoever has the URL may append (D12). */
export async function createUpload(
  db: Db,
  time: Date,
  newUpload: NewUpload,
): Promise<{ upload: Upload; token: string }> {
  const token = randomBytes(24).toString('base64url')
  const rows = await db
    .insert(uploads)
    .values({
      id: newId(),
      kind: newUpload.kind,
      bucketId: newUpload.bucket?.id ?? null,
      key: newUpload.key,
      contentType: newUpload.contentType ?? 'application/octet-stream',
      headers: {},
      metadata: {},
      tags: {},
      contentLength: newUpload.contentLength,
      checksumMd5: newUpload.md5 ?? null,
      checksumSha1: newUpload.sha1 ?? null,
      checksumSha256: newUpload.sha256 ?? null,
      isPartial: newUpload.isPartial ?? false,
      isNewOnly: newUpload.isNewOnly ?? false,
      concatenates: newUpload.concatenates ?? null,
      uploadMetadata: newUpload.uploadMetadata ?? null,
      createdBy: callerOf(newUpload.createdBy),
      tokenHash: hash('sha256', token, 'buffer'),
      state: 'pending',
      expiresAt: new Date(time.getTime() + LIFETIME_MS),
      createdAt: time,
      updatedAt: time,
    })
    .returning()
  return { upload: one(rows), token }
}

/** The state of an upload at an instant: expired once its time has passed, even before the worker records that. */
export const stateOf = (upload: Pick<Upload, 'state' | 'expiresAt'>, time: Date): Upload['state'] =>
  (upload.state === 'pending' || upload.state === 'ready') && upload.expiresAt <= time ? 'expired' : upload.state

/** All upload sessions of a bucket, newest first (A §1 Whole set). */
export const listSessions = ({ db }: Pick<StorageDeps, 'db'>, bucketId: string): Promise<Upload[]> =>
  db
    .select()
    .from(uploads)
    .where(and(eq(uploads.bucketId, bucketId), eq(uploads.kind, 'session')))
    .orderBy(desc(uploads.id))

/** An upload session of a bucket. Throws NotFound. */
export async function getSession({ db }: Pick<StorageDeps, 'db'>, bucketId: string, id: string): Promise<Upload> {
  const [session] = await db
    .select()
    .from(uploads)
    .where(and(eq(uploads.id, id), eq(uploads.bucketId, bucketId), eq(uploads.kind, 'session')))
  if (!session) throw new NotFound('Upload session')
  return session
}

/** The upload with this id, if the token matches the one in its URL, which is the only credential needed (D12). */
export async function findUploadByToken(
  { db }: Pick<StorageDeps, 'db'>,
  id: string,
  token: string,
): Promise<Upload | undefined> {
  const [upload] = await db
    .select()
    .from(uploads)
    .where(and(eq(uploads.id, id), eq(uploads.tokenHash, hash('sha256', token, 'buffer'))))
  return upload
}

/** The upload with this id. Throws NotFound. */
export async function getUpload({ db }: Pick<StorageDeps, 'db'>, id: string): Promise<Upload> {
  const [upload] = await db.select().from(uploads).where(eq(uploads.id, id))
  if (!upload) throw new NotFound('Upload')
  return upload
}

/** Throws like `requireStorageWrite` if the organization has lost its access or reached its quota since the upload began. */
export async function requireStorageAccess({ db }: Pick<StorageDeps, 'db'>, { bucketId }: Upload): Promise<void> {
  if (bucketId === null) return // a part; its target is named at concatenation
  const [bucket] = await db
    .select({ applicationId: buckets.applicationId })
    .from(buckets)
    .where(eq(buckets.id, bucketId))
  if (bucket) await requireStorageWrite({ db }, bucket.applicationId)
}

/** Discards the bytes of expired uploads. A day after its expiry every upload is deleted, completed ones included. */
export async function expireUploads({ db, now }: Pick<StorageDeps, 'db' | 'now'>): Promise<void> {
  const time = now()
  const isOver = lt(uploads.expiresAt, time)
  await db
    .update(uploads)
    .set({ state: 'expired', hashState: null, updatedAt: time })
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
  await discardBefore(db, uploads.expiresAt, new Date(time.getTime() - LIFETIME_MS))
}

/** Deletes an upload; the collector removes its bytes. */
export async function terminateUpload({ db }: Pick<StorageDeps, 'db'>, id: string): Promise<void> {
  await db.delete(uploads).where(eq(uploads.id, id))
}
