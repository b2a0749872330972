import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { publicUrlOf } from '../objects/access-url.ts'
import type { Bucket } from '../objects/buckets.ts'
import { CONTENT_TYPE, KEY_BYTES_MAX, whyNoKey } from '../objects/object-key.ts'
import { reachBucket } from '../objects/reach.ts'
import { requireStorageWrite } from '../objects/stored-bytes.ts'
import { deprecation, flat, hex, nested, ofBucket } from '../objects/shapes.ts'
import { completeEmpty } from './complete-upload.ts'
import { uploadUrlOf } from './upload-url.ts'
import { createUpload, getSession, listSessions, OBJECT_BYTES_MAX, stateOf, type Upload } from './uploads.ts'

const tag = 'Storage'
const spec = 'A §1 Pagination, D38'

/** A digest: hex on the wire, bytes in code. */
const digest = (bytes: number, example: string) =>
  z
    .string()
    .regex(new RegExp(`^[0-9a-fA-F]{${bytes * 2}}$`), `Expected ${bytes} bytes in hex`)
    .openapi({ example })
const sha1 = digest(20, '0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33')
const sha256 = digest(32, '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae')
const md5 = digest(16, 'acbd18db4cc2f85cedef654fccc4a4d8')

const UploadSession = z
  .object({
    id,
    bucketId: id,
    applicationId: id,
    key: shown('photos/cat.jpg'),
    contentType: shown('image/jpeg'),
    contentLength: z.number().int().min(0).openapi({ example: 48_213 }),
    checksumSha1: sha1.nullable(),
    checksumSha256: sha256.nullable(),
    checksumMd5: md5.nullable(),
    state: z.enum(['pending', 'ready', 'completed', 'failed', 'expired']),
    expiresAt: instant,
    uploadedAt: instant.nullable(),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('UploadSession')

const NewUploadSession = z
  .object({
    session: UploadSession,
    upload: z.object({
      method: z.literal('PATCH'),
      url: z.url().openapi({
        format: 'uri',
        example:
          'https://api.example.com/files/0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10.Zm9vYmFyYmF6cXV4cXV1eGNvcmdlZ3JhdWx0',
        description: 'A tus upload URL. HEAD and PATCH need no token.',
      }),
      headers: z.record(z.string(), z.string()),
      publicObjectUrl: z
        .url()
        .nullable()
        .openapi({ format: 'uri', example: 'https://media.objects.example.com/photos/cat.jpg' }),
    }),
  })
  .openapi('NewUploadSession')

/** An upload session as the API shows it (wire.md). */
const shownSession = (upload: Upload, bucket: Bucket, time: Date) => ({
  ...upload,
  bucketId: bucket.id,
  applicationId: bucket.applicationId,
  contentLength: upload.contentLength ?? 0,
  checksumSha1: hex(upload.checksumSha1),
  checksumSha256: hex(upload.checksumSha256),
  checksumMd5: hex(upload.checksumMd5),
  state: stateOf(upload, time),
})

const uploadsPath = `${nested}/buckets/{bucket}/uploads` as const
const also = [`${nested}/storage/buckets/{bucket}/uploads`, `${flat}/{bucket}/uploads`] as const
const bytesOf = (text: string | undefined): Buffer | null => (text === undefined ? null : Buffer.from(text, 'hex'))

export const uploadEndpoints = [
  endpoint({
    operation: 'listUploadSessions',
    on: `GET ${uploadsPath}`,
    also,
    spec,
    tag,
    summary: 'List upload sessions',
    description: 'Newest first. Sessions that have ended stay listed for a day.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofBucket,
    reach: reachBucket,
    returns: [200, page(UploadSession)],
    headersFor: deprecation,
    handle: async ({ deps, target }) => {
      const sessions = await listSessions(deps, target.id)
      const now = deps.now()
      return asWholeSet(sessions.map((session) => shownSession(session, target, now)))
    },
  }),
  endpoint({
    operation: 'createUploadSession',
    on: `POST ${uploadsPath}`,
    also,
    spec,
    tag,
    summary: 'Create an upload session',
    description:
      'For an object whose length and SHA-256 are known. Send the content to `upload.url` with tus; the URL works for 24 hours and needs no token. Content that does not match is rejected there with 422 and discarded.',
    actor: 'any',
    scope: 'network:storage:write',
    params: ofBucket,
    body: z.strictObject({
      key: text(KEY_BYTES_MAX).min(1).openapi({ example: 'photos/cat.jpg' }),
      contentLength: z.number().int().min(0).max(OBJECT_BYTES_MAX).openapi({ example: 48_213 }),
      checksumSha256: sha256,
      contentType: text(355).regex(CONTENT_TYPE, 'Expected a media type').optional().openapi({ example: 'image/jpeg' }),
      checksumSha1: sha1.optional(),
      checksumMd5: md5.optional(),
    }),
    async reach(call) {
      const bucket = await reachBucket(call)
      await requireStorageWrite(call.deps, bucket.applicationId)
      return bucket
    },
    returns: [201, NewUploadSession],
    headersFor: deprecation,
    handle: async ({ deps, actor, target: bucket, body }) => {
      const why = whyNoKey(body.key)
      if (why !== undefined) throw new BadRequest(why)
      const now = deps.now()
      const { upload, token } = await deps.db.transaction(async (tx) => {
        const made = await createUpload(tx, now, {
          kind: 'session',
          bucket,
          key: body.key,
          contentType: body.contentType,
          contentLength: body.contentLength,
          sha256: bytesOf(body.checksumSha256),
          sha1: bytesOf(body.checksumSha1),
          md5: bytesOf(body.checksumMd5),
          createdBy: actor,
        })
        if (body.contentLength > 0) return made
        await completeEmpty(tx, now, made.upload)
        return { ...made, upload: await getSession({ db: tx }, bucket.id, made.upload.id) }
      })
      return {
        session: shownSession(upload, bucket, now),
        upload: {
          method: 'PATCH' as const,
          url: uploadUrlOf(deps, upload.id, token),
          headers: {
            'Tus-Resumable': '1.0.0',
            'Upload-Offset': '0',
            'Content-Type': 'application/offset+octet-stream',
          },
          publicObjectUrl: bucket.visibility === 'public' ? publicUrlOf(deps, bucket, body.key) : null,
        },
      }
    },
  }),
  endpoint({
    operation: 'getUploadSession',
    on: `GET ${uploadsPath}/{sessionId}`,
    also: [`${also[0]}/{sessionId}`, `${also[1]}/{sessionId}`],
    spec,
    tag,
    summary: 'Get an upload session',
    description: '`state` is pending until the first byte, then ready, then completed, failed or expired.',
    actor: 'any',
    scope: 'network:storage:read',
    params: { ...ofBucket, sessionId: pathId('Upload session') },
    reach: reachBucket,
    returns: [200, UploadSession],
    headersFor: deprecation,
    handle: async ({ deps, target, params }) =>
      shownSession(await getSession(deps, target.id, params.sessionId), target, deps.now()),
  }),
]
