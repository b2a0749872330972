import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, isNull, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import { apiKeys } from '../../credentials/api-keys/table.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { isWithheldBelow } from '../../tenancy/applications/product-access.ts'
import type { Bucket } from '../objects/buckets.ts'
import { isFullBelow } from '../objects/stored-bytes.ts'
import type { StoredObject } from '../objects/commit-object.ts'
import { blobs, buckets, objectBlobs, objects } from '../objects/table.ts'
import type { BucketName } from './bucket-name.ts'

/** A bucket with what S3 needs of it. */
export type NamedBucket = Pick<Bucket, keyof typeof bucket>

/** An object with what S3 needs of it. */
export type NamedObject = Pick<StoredObject, keyof typeof object>

/** A live object and its first blob, as `openObject` accepts them. */
export interface FoundObject {
  object: NamedObject
  first: { id: string; length: number; content: Buffer | null } | null
}

/** The resources that a request names; null if they do not exist or the operation does not need them. */
export interface Named {
  /** The environment in the bucket's name; null if there is none. */
  environmentId: string | null
  bucket: NamedBucket | null
  found: FoundObject | null
  /** True if the request writes and the organization has lost access to storage: it may still read (D91). */
  isReadOnly: boolean
  /** True if the request writes and the organization has reached its quota of bytes. */
  isFull: boolean
}

/** The columns of an API key that authorization needs. */
export interface SigningApiKey {
  id: string
  applicationId: string | null
  /** Set with `environmentId` if the key is the credential of a deployment's Functions. */
  deploymentId: string | null
  environmentId: string | null
  scopes: string[]
  expiresAt: Date | null
  signingState: Buffer | null
  signingKekId: string | null
  lastUsedAt: Date | null
}

// Each column of a row costs every request, so these are the ones that S3 reads.
const bucket = {
  id: buckets.id,
  applicationId: buckets.applicationId,
  environmentId: buckets.environmentId,
  name: buckets.name,
  slug: buckets.slug,
  visibility: buckets.visibility,
  environment: environments.slug,
}
const object = {
  id: objects.id,
  contentType: objects.contentType,
  contentLength: objects.contentLength,
  etag: objects.etag,
  checksum: objects.checksum,
  headers: objects.headers,
  metadata: objects.metadata,
  tags: objects.tags,
  blobCount: objects.blobCount,
  uploadedAt: objects.uploadedAt,
}
const named = {
  environmentId: environments.id,
  bucket,
  object,
  first: { id: blobs.id, length: blobs.length, content: blobs.content },
}
const key = {
  id: apiKeys.id,
  applicationId: apiKeys.applicationId,
  deploymentId: apiKeys.deploymentId,
  environmentId: apiKeys.environmentId,
  scopes: apiKeys.scopes,
  expiresAt: apiKeys.expiresAt,
  signingState: apiKeys.signingState,
  signingKekId: apiKeys.signingKekId,
  lastUsedAt: apiKeys.lastUsedAt,
}
const bucketNamed = and(
  eq(buckets.environmentId, environments.id),
  eq(buckets.name, sql.placeholder('name')),
  isNull(buckets.deletedAt),
)
const objectNamed = and(
  eq(objects.bucketId, buckets.id),
  eq(objects.key, sql.placeholder('key')),
  isNull(objects.deletedAt),
)
const firstPiece = and(eq(objectBlobs.objectId, objects.id), eq(objectBlobs.n, 0))

/** SQL: what refuses writes. A read is spared the questions. */
const obstaclesOf = (isWrite: SQL, applicationId: SQLWrapper) => ({
  isReadOnly: sql<boolean>`${isWrite} and ${isWithheldBelow(applicationId, 'storage')}`,
  isFull: sql<boolean>`${isWrite} and ${isFullBelow(applicationId)}`,
})

/** One look-up: a key id, the names in its request, and whether that writes. */
const lookups = keysAsRows({ keyId: 'uuid', environment: 'text', name: 'text', key: 'text', isWrite: 'bool' })

/** Finds keys and the named resources, in one statement for all requests of a tick. */
const bySigner = lazyPrepared((db) => {
  const { columns } = lookups
  // A subquery, so that the planner has to use both columns of the index: as a plain join it read the whole bucket for each key
  // until the table had been analysed.
  const live = db
    .select({ id: objects.id })
    .from(objects)
    .where(and(eq(objects.bucketId, buckets.id), eq(objects.key, columns.key), isNull(objects.deletedAt)))
    .limit(1)
    .as('live')
  const query = db
    .select({
      n: lookups.n,
      key,
      ...named,
      ...obstaclesOf(columns.isWrite, apiKeys.applicationId),
    })
    .from(lookups.from)
    .innerJoin(apiKeys, and(eq(apiKeys.id, columns.keyId), isNull(apiKeys.deletedAt)))
    .leftJoin(
      environments,
      and(eq(environments.applicationId, apiKeys.applicationId), eq(environments.slug, columns.environment)),
    )
    .leftJoin(
      buckets,
      and(eq(buckets.environmentId, environments.id), eq(buckets.name, columns.name), isNull(buckets.deletedAt)),
    )
    .leftJoinLateral(live, sql`true`)
    .leftJoin(objects, eq(objects.id, live.id))
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .prepare('s3_by_signer')
  return batchPerTick(async (keys: readonly Record<keyof typeof columns, string | boolean | null>[]) =>
    lookups.inOrder(keys, await query.execute(lookups.parameters(keys))),
  )
})

const byApplication = lazyPrepared((db) =>
  db
    .select({
      ...named,
      ...obstaclesOf(sql`${sql.placeholder('isWrite')}::bool`, environments.applicationId),
    })
    .from(environments)
    .leftJoin(buckets, bucketNamed)
    .leftJoin(objects, objectNamed)
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(
      and(
        eq(environments.applicationId, sql.placeholder('applicationId')),
        eq(environments.slug, sql.placeholder('environment')),
      ),
    )
    .prepare('s3_by_application'),
)

const publicBySlug = lazyPrepared((db) =>
  db
    .select(named)
    .from(buckets)
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .leftJoin(objects, objectNamed)
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(and(eq(buckets.slug, sql.placeholder('slug')), eq(buckets.visibility, 'public'), isNull(buckets.deletedAt)))
    .prepare('s3_public_by_slug'),
)

/** The names in a request; undefined: not needed. */
export interface Asked {
  bucket: BucketName | undefined
  /** Set only if the operation needs the object. */
  key: string | undefined
  /** True if the operation writes. */
  isWrite: boolean
}

/** drizzle types a left-joined table as nullable only if each of its columns is. */
function asNamed(row: {
  environmentId: string | null
  bucket: unknown
  object: unknown
  first: unknown
  isReadOnly?: boolean
  isFull?: boolean
}): Named {
  const namedBucket = row.bucket as NamedBucket | null
  const live = row.object as NamedObject | null
  // The slug is joined from another table, so a missing bucket is not null but has no id.
  return {
    environmentId: row.environmentId,
    bucket: namedBucket?.id ? namedBucket : null,
    found: live && { object: live, first: row.first as FoundObject['first'] },
    isReadOnly: row.isReadOnly ?? true, // without a key nothing is written
    isFull: row.isFull ?? false,
  }
}

/** Finds a live API key and the named resources of its application, in one statement. */
export async function findSigner(
  db: Db,
  keyId: string,
  { bucket, key, isWrite }: Asked,
): Promise<{ key: SigningApiKey; named: Named } | undefined> {
  const row = await bySigner(db)({
    keyId,
    environment: bucket?.environment ?? null,
    name: bucket?.name ?? null,
    key: key ?? null,
    isWrite,
  })
  return row && { key: row.key, named: asNamed(row) }
}

/** The result for a request that names no resources, or only missing ones. */
export const NOTHING: Named = { environmentId: null, bucket: null, found: null, isReadOnly: false, isFull: false }

/** Finds the named resources of an application. */
export async function findBelowApplication(
  db: Db,
  applicationId: string,
  { bucket, key, isWrite }: Asked,
): Promise<Named> {
  if (!bucket) return NOTHING
  const [row] = await byApplication(db).execute({ applicationId, ...bucket, key: key ?? null, isWrite })
  return row ? asNamed(row) : NOTHING
}

/** Finds a public bucket by its slug, the only name without an application (D34), and an object in it. */
export async function findPublic(db: Db, slug: string, key: string | undefined): Promise<Named> {
  const [row] = await publicBySlug(db).execute({ slug, key: key ?? null })
  return row ? asNamed(row) : NOTHING
}
