import { z } from '@hono/zod-openapi'
import { isLowerCaseUuid } from '@platform/runtime/is-uuid'
import type { StorageDeps } from '../deps.ts'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { asWholeSet, cursorPage, cursorQuery, page } from '../../../http/pages.ts'
import { slug } from '../../tenancy/organizations/labels.ts'
import { requireApplicationProduct } from '../../tenancy/applications/product-access.ts'
import { accessTo, cdnHostnameOf } from './access-url.ts'
import { type Bucket as StoredBucket, createBucket, deleteBucket, listBuckets } from './buckets.ts'
import type { StoredObject } from './commit-object.ts'
import { objectsPage, trashPage } from './list-objects.ts'
import { KEY_BYTES_MAX } from './object-key.ts'
import { reachBucket, reachEnvironment, reachNewBucketPlace, reachObject, reachTrashedObject } from './reach.ts'
import { deprecation, flat, hex, inEnvironment, nested, ofBucket } from './shapes.ts'
import { emptyTrash, purgeObject, restoreBelow, restoreObject, trashBelow, trashObject } from './trash.ts'

const tag = 'Storage'
const spec = 'A §4 Storage'

/** D34; excludes UUIDs, which would be read as ids (D39). */
const bucketName = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{1,61}[a-z0-9])$/,
    'Expected 3 to 63 lower-case letters, digits and hyphens, with no hyphen at either end',
  )
  .refine((name) => !isLowerCaseUuid(name), 'Expected a name that is not shaped like a UUID')
  .openapi({ example: 'media' })
const visibility = z.enum(['private', 'public'])
const environmentRef = text(64).openapi({ example: 'production', description: 'Slug or UUID of an environment.' })
const hexDigest = (example: string) =>
  z.string().nullable().openapi({ example, description: 'In hex; null if unknown.' })

const Bucket = z
  .object({
    id,
    applicationId: id,
    name: bucketName,
    slug: shown('media'),
    visibility,
    cdnHostname: shown('media.objects.example.com'),
    environment: z.enum(['production', 'preview']),
    environmentId: id,
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('Bucket')

const StorageObject = z
  .object({
    id,
    bucketId: id,
    applicationId: id,
    uploadSessionId: id.nullable(),
    key: shown('photos/cat.jpg'),
    contentType: shown('image/jpeg'),
    contentLength: z.number().int().min(0).openapi({ example: 48_213 }),
    checksumSha1: hexDigest('0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33'),
    checksumSha256: hexDigest('2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'),
    checksumMd5: hexDigest('acbd18db4cc2f85cedef654fccc4a4d8'),
    uploadedAt: instant,
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('StorageObject')
const TrashedObject = z.object({ ...StorageObject.shape, deletedAt: instant }).openapi('TrashedObject')

const ObjectAccess = z
  .object({
    accessType: z.enum(['public', 'signed']),
    url: z.url().openapi({ format: 'uri', example: 'https://media.objects.example.com/photos/cat.jpg' }),
    expiresAt: instant.nullable(),
  })
  .openapi('ObjectAccess')

const counted = (description: string) => z.number().int().min(0).openapi({ example: 3, description })

/** A bucket as the API shows it (wire.md). */
const shownBucket = (deps: Pick<StorageDeps, 'objectsDomain'>, bucket: StoredBucket) => ({
  ...bucket,
  cdnHostname: cdnHostnameOf(deps, bucket),
})

/** An object as the API shows it (wire.md). */
const shownObject = (object: StoredObject, { applicationId }: Pick<StoredBucket, 'applicationId'>) => ({
  ...object,
  applicationId,
  checksumMd5: hex(object.checksumMd5),
  checksumSha1: hex(object.checksumSha1),
  checksumSha256: hex(object.checksumSha256),
})
const shownTrashed = (object: StoredObject, bucket: StoredBucket) => ({
  ...shownObject(object, bucket),
  deletedAt: object.deletedAt ?? object.updatedAt, // in the trash it is never null
})

/** Only the flat paths name the bucket. */
const ofObject = { ...ofBucket, objectId: pathId('Object') }

export const objectEndpoints = [
  endpoint({
    operation: 'listBuckets',
    on: `GET ${nested}/storage/buckets`,
    also: [`${nested}/buckets`, flat],
    spec,
    tag,
    summary: 'List buckets',
    description: 'All buckets of the environment, sorted by name.',
    actor: 'any',
    scope: 'network:storage:read',
    params: inEnvironment,
    reach: reachEnvironment,
    returns: [200, page(Bucket)],
    handle: async ({ deps, target: { application, environment } }) => {
      const buckets = await listBuckets(deps, application.id, environment.id)
      return asWholeSet(buckets.map((bucket) => shownBucket(deps, bucket)))
    },
  }),
  endpoint({
    operation: 'createBucket',
    on: `POST ${nested}/storage/buckets`,
    also: [`${nested}/buckets`, flat],
    spec,
    tag,
    summary: 'Create a bucket',
    description:
      'Private unless `visibility` says otherwise. The environment comes from the path or query, else from the body, else it is `production` or a Function’s own; 400 if path and body disagree. The name is unique in the environment and cannot be changed. `slug` is unique across the platform and becomes the first label of `cdnHostname`; without one it is derived from the name.',
    actor: 'any',
    scope: 'network:storage:write',
    params: inEnvironment,
    body: z.strictObject({
      name: bucketName,
      environment: environmentRef.optional(),
      environmentId: environmentRef.optional(),
      visibility: visibility.optional(),
      slug: slug.optional(),
    }),
    async reach(call) {
      const place = await reachNewBucketPlace(call)
      await requireApplicationProduct(call.deps, 'storage', place.application.id)
      return place
    },
    returns: [201, Bucket],
    fails: [400, 409],
    handle: async ({ deps, target: { application, environment }, body }) =>
      shownBucket(deps, await createBucket(deps, application, environment, body)),
  }),
  endpoint({
    operation: 'getBucket',
    on: `GET ${nested}/buckets/{bucket}`,
    also: [`${nested}/storage/buckets/{bucket}`, `${flat}/{bucket}`],
    spec,
    tag,
    summary: 'Get a bucket',
    description: 'By name. A UUID works too, but is deprecated: the response then has a `Deprecation` header.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofBucket,
    reach: reachBucket,
    returns: [200, Bucket],
    headersFor: deprecation,
    handle: ({ deps, target }) => shownBucket(deps, target),
  }),
  endpoint({
    operation: 'deleteBucket',
    on: `DELETE ${nested}/buckets/{bucket}`,
    also: [`${nested}/storage/buckets/{bucket}`, `${flat}/{bucket}`],
    spec,
    tag,
    summary: 'Delete a bucket',
    description: 'Deletes its trash as well. 409 while it holds live objects, unless `force=true` deletes those too.',
    actor: 'any',
    scope: 'network:storage:delete',
    params: ofBucket,
    query: z.object({
      force: z
        .enum(['true', 'false'])
        .transform((text) => text === 'true')
        .optional()
        .openapi({ description: 'Whether to delete live objects as well.' }),
    }),
    reach: reachBucket,
    returns: [204],
    fails: [409],
    headersFor: deprecation,
    handle: ({ deps, target, query }) => deleteBucket(deps, target, query.force),
  }),
  endpoint({
    operation: 'listObjects',
    on: `GET ${nested}/buckets/{bucket}/objects`,
    also: [`${nested}/storage/buckets/{bucket}/objects`, `${flat}/{bucket}/objects`],
    spec,
    tag,
    summary: 'List objects',
    description:
      'Sorted by the bytes of their keys. With a `delimiter`, keys that contain it after the prefix are grouped into `commonPrefixes`; `total` still counts objects.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofBucket,
    query: z.object({
      ...cursorQuery(),
      prefix: text(KEY_BYTES_MAX)
        .optional()
        .openapi({ description: 'Objects whose key starts with this prefix.', example: 'photos/' }),
      delimiter: text(16)
        .optional()
        .openapi({ description: 'Groups keys by everything up to this text.', example: '/' }),
    }),
    reach: reachBucket,
    returns: [
      200,
      z.object({
        ...cursorPage(StorageObject).shape,
        commonPrefixes: z.array(shown('photos/')),
      }),
    ],
    fails: [400],
    headersFor: deprecation,
    handle: async ({ deps, target, query }) => {
      const listed = await objectsPage(deps, target.id, query)
      return { ...listed, items: listed.items.map((object) => shownObject(object, target)) }
    },
  }),
  endpoint({
    operation: 'trashObjects',
    on: `DELETE ${nested}/buckets/{bucket}/objects`,
    also: [`${nested}/storage/buckets/{bucket}/objects`, `${flat}/{bucket}/objects`],
    spec,
    tag,
    summary: 'Move objects to the trash',
    description:
      'Moves every object whose key starts with the prefix, some thousand at a time; objects that were moved stay in the trash if a later step fails.',
    actor: 'any',
    scope: 'network:storage:delete',
    params: ofBucket,
    query: z.object({
      prefix: text(KEY_BYTES_MAX)
        .min(1)
        .openapi({ description: 'Objects whose key starts with this prefix.', example: 'photos/2025/' }),
    }),
    reach: reachBucket,
    returns: [
      200,
      z.object({ trashedCount: counted('Number of objects moved to the trash.') }).openapi('TrashedCount'),
    ],
    headersFor: deprecation,
    handle: async ({ deps, target, query }) => ({ trashedCount: await trashBelow(deps, target.id, query.prefix) }),
  }),
  endpoint({
    operation: 'getObject',
    on: `GET ${nested}/objects/{objectId}`,
    also: [`${nested}/storage/objects/{objectId}`, `${flat}/{bucket}/objects/{objectId}`],
    spec,
    tag,
    summary: 'Get an object',
    description: 'Metadata only; get an access URL for the content. 404 for an object in the trash.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofObject,
    reach: reachObject,
    returns: [200, StorageObject],
    handle: ({ target: { object, bucket } }) => shownObject(object, bucket),
  }),
  endpoint({
    operation: 'trashObject',
    on: `DELETE ${nested}/objects/{objectId}`,
    also: [`${nested}/storage/objects/{objectId}`, `${flat}/{bucket}/objects/{objectId}`],
    spec,
    tag,
    summary: 'Move an object to the trash',
    description: 'Frees its key and disables its URLs at once. It can be restored until it is purged.',
    actor: 'any',
    scope: 'network:storage:delete',
    params: ofObject,
    reach: reachObject,
    returns: [204],
    handle: ({ deps, target: { object, bucket } }) => trashObject(deps, bucket.id, object.id),
  }),
  endpoint({
    operation: 'getObjectAccessUrl',
    on: `GET ${nested}/objects/{objectId}/access-url`,
    also: [`${nested}/storage/objects/{objectId}/access-url`, `${flat}/{bucket}/objects/{objectId}/access-url`],
    spec,
    tag,
    summary: 'Get an access URL',
    description:
      'For a private object, a signed URL that works for `expiresInSeconds` or until the object moves to the trash. For a public object, its permanent URL with `expiresAt: null`.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofObject,
    query: z.object({
      expiresInSeconds: z
        .string()
        .regex(/^\d{1,5}$/, 'Expected an integer from 60 to 86400')
        .transform(Number)
        .pipe(z.number().int().min(60).max(86_400))
        .default(3_600)
        .openapi({
          type: 'integer',
          minimum: 60,
          maximum: 86_400,
          default: 3_600,
          description: 'Lifetime of the URL.',
        }),
    }),
    reach: reachObject,
    returns: [200, ObjectAccess],
    handle: ({ deps, target: { object, bucket }, query }) => accessTo(deps, bucket, object, query.expiresInSeconds),
  }),
  endpoint({
    operation: 'listTrash',
    on: `GET ${nested}/buckets/{bucket}/trash`,
    also: [`${nested}/storage/buckets/{bucket}/trash`, `${flat}/{bucket}/trash`],
    spec,
    tag,
    summary: 'List the trash',
    description: 'Most recently deleted first.',
    actor: 'any',
    scope: 'network:storage:read',
    params: ofBucket,
    query: z.object(cursorQuery()),
    reach: reachBucket,
    returns: [200, cursorPage(TrashedObject)],
    fails: [400],
    headersFor: deprecation,
    handle: async ({ deps, target, query }) => {
      const listed = await trashPage(deps, target.id, query)
      return { ...listed, items: listed.items.map((object) => shownTrashed(object, target)) }
    },
  }),
  endpoint({
    operation: 'restoreObject',
    on: `POST ${nested}/trash/{objectId}/restore`,
    also: [`${nested}/storage/trash/{objectId}/restore`, `${flat}/{bucket}/trash/{objectId}/restore`],
    spec,
    tag,
    summary: 'Restore an object',
    description: 'Restores it under its key. 409 if another object has the key now.',
    actor: 'any',
    scope: 'network:storage:write',
    params: ofObject,
    async reach(call) {
      const reached = await reachTrashedObject(call)
      await requireApplicationProduct(call.deps, 'storage', reached.bucket.applicationId)
      return reached
    },
    returns: [200, StorageObject],
    fails: [409],
    handle: async ({ deps, target: { object, bucket } }) =>
      shownObject(await restoreObject(deps, bucket.id, object.id), bucket),
  }),
  endpoint({
    operation: 'restoreObjects',
    on: `POST ${nested}/buckets/{bucket}/trash/restore`,
    also: [`${nested}/storage/buckets/{bucket}/trash/restore`, `${flat}/{bucket}/trash/restore`],
    spec,
    tag,
    summary: 'Restore objects',
    description:
      'Restores, for each key that starts with the prefix, the object that was deleted last. Keys in use stay as they are. With `deletedAfter`, only objects deleted later are restored.',
    actor: 'any',
    scope: 'network:storage:write',
    params: ofBucket,
    body: z.strictObject({
      prefix: text(KEY_BYTES_MAX).optional().openapi({ example: 'photos/2025/' }),
      deletedAfter: instant.optional(),
    }),
    async reach(call) {
      const bucket = await reachBucket(call)
      await requireApplicationProduct(call.deps, 'storage', bucket.applicationId)
      return bucket
    },
    returns: [200, z.object({ restoredCount: counted('Number of restored objects.') }).openapi('RestoredCount')],
    headersFor: deprecation,
    handle: async ({ deps, target, body }) => ({ restoredCount: await restoreBelow(deps, target.id, body) }),
  }),
  endpoint({
    operation: 'purgeObject',
    on: `DELETE ${nested}/trash/{objectId}`,
    also: [`${nested}/storage/trash/{objectId}`, `${flat}/{bucket}/trash/{objectId}`],
    spec,
    tag,
    summary: 'Purge an object',
    description: 'Removes an object from the trash. Cannot be undone.',
    actor: 'any',
    scope: 'network:storage:delete',
    params: ofObject,
    reach: reachTrashedObject,
    returns: [204],
    handle: ({ deps, target: { object, bucket } }) => purgeObject(deps, bucket.id, object.id),
  }),
  endpoint({
    operation: 'emptyTrash',
    on: `DELETE ${nested}/buckets/{bucket}/trash`,
    also: [`${nested}/storage/buckets/{bucket}/trash`, `${flat}/{bucket}/trash`],
    spec,
    tag,
    summary: 'Empty the trash',
    description: 'Cannot be undone.',
    actor: 'any',
    scope: 'network:storage:delete',
    params: ofBucket,
    reach: reachBucket,
    returns: [200, z.object({ purgedCount: counted('Number of deleted objects.') }).openapi('PurgedCount')],
    headersFor: deprecation,
    handle: async ({ deps, target }) => ({ purgedCount: await emptyTrash(deps, target.id) }),
  }),
]
