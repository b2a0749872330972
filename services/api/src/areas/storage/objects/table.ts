import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  customType,
  foreignKey,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  unique,
  uniqueIndex,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import { applications, environments } from '../../tenancy/applications/table.ts'
import { organizations } from '../../tenancy/organizations/table.ts'

/** Text sorted by its bytes, the order in which S3 lists keys. */
const keyText = customType<{ data: string }>({ dataType: () => 'text collate "C"' })
const bytes = (name: string) => bigint(name, { mode: 'number' })

export type Visibility = 'public' | 'private'

/**
 * A bucket (A §2). A deleted one keeps its row, under a name that no bucket can have, until the worker has removed its contents.
 */
export const buckets = pgTable(
  'buckets',
  {
    id: uuid().primaryKey(),
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'restrict' }),
    environmentId: uuid('environment_id')
      .notNull()
      .references(() => environments.id, { onDelete: 'restrict' }),
    name: varchar({ length: 63 }).notNull(),
    /** Globally unique: the first label of the hostname that serves its objects. */
    slug: varchar({ length: 63 }).notNull(),
    visibility: text().$type<Visibility>().notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
    deletedAt: instant('deleted_at'),
  },
  (t) => [
    // Not partial: updating a column of these indexes locks the row against everybody about to write into the bucket.
    unique('buckets_name').on(t.environmentId, t.name),
    unique('buckets_slug').on(t.slug),
    index('buckets_deleted')
      .on(t.deletedAt)
      .where(sql`${t.deletedAt} is not null`),
    check('buckets_visibility', sql`${t.visibility} in ('public', 'private')`),
  ],
)

/**
 * An immutable run of bytes: up to 16 KiB in the row itself, more in the blob driver under the row's id. `pending` until it is
 * durable and referenced; `dead` once the collector has found no references.
 */
export const blobs = pgTable(
  'blobs',
  {
    id: uuid().primaryKey(),
    state: text().$type<'pending' | 'live' | 'dead'>().notNull(),
    length: bytes('length').notNull(),
    /** CRC-32 of the bytes; null while pending. */
    crc32: bytes('crc32'),
    /** The bytes; null if the driver has them. */
    content: bytea('content'),
    createdAt: instant('created_at').notNull(),
    diedAt: instant('died_at'),
  },
  (t) => [
    index('blobs_not_live')
      .on(t.createdAt)
      .where(sql`${t.state} <> 'live'`),
    check('blobs_state', sql`${t.state} in ('pending', 'live', 'dead')`),
  ],
)

/**
 * Blobs that lost a reference: the collector checks whether others remain. Written by triggers, so that no way of deleting can
 * forget it.
 */
export const blobCandidates = pgTable('blob_candidates', {
  blobId: uuid('blob_id').primaryKey(),
})

/** What a client declares about an object beside its content type; returned with the object (S3 system metadata). */
export interface ObjectHeaders {
  cacheControl?: string
  contentDisposition?: string
  contentEncoding?: string
  contentLanguage?: string
  expires?: string
}

/** The additional checksum of an object, as S3 clients declare and read it. value: base64, followed by `-n` if composite. */
export interface ObjectChecksum {
  algorithm: 'CRC32' | 'CRC32C' | 'CRC64NVME' | 'SHA1' | 'SHA256'
  type: 'FULL_OBJECT' | 'COMPOSITE'
  value: string
}

/**
 * S3 tags: pairs in the order given. Rows of earlier releases hold an object, which keeps no order in `jsonb`; so does a new object
 * without tags.
 */
export type StoredTags = readonly (readonly [key: string, value: string])[] | Readonly<Record<string, string>>

/** An object, live or trashed: metadata of a sequence of blobs. In a bucket, at most one is live under a key. */
export const objects = pgTable(
  'objects',
  {
    id: uuid().primaryKey(),
    bucketId: uuid('bucket_id')
      .notNull()
      .references(() => buckets.id),
    key: keyText('key').notNull(),
    contentType: text('content_type').notNull(),
    contentLength: bytes('content_length').notNull(),
    /** Without quotes: the MD5 in hex, or `md5-n` of a multipart upload. */
    etag: text().notNull(),
    checksumMd5: bytea('checksum_md5'),
    checksumSha1: bytea('checksum_sha1'),
    checksumSha256: bytea('checksum_sha256'),
    checksum: jsonb().$type<ObjectChecksum>(),
    headers: jsonb().$type<ObjectHeaders>().notNull(),
    /** Names in lower case. */
    metadata: jsonb().$type<Record<string, string>>().notNull(),
    tags: jsonb().$type<StoredTags>().notNull(),
    blobCount: integer('blob_count').notNull(),
    /** The upload session that created it (wire.md). */
    uploadSessionId: uuid('upload_session_id'),
    uploadedAt: instant('uploaded_at').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
    deletedAt: instant('deleted_at'),
  },
  (t) => [
    uniqueIndex('objects_live')
      .on(t.bucketId, t.key)
      .where(sql`${t.deletedAt} is null`),
    index('objects_trash')
      .on(t.bucketId, t.deletedAt.desc().nullsFirst(), t.id.desc().nullsFirst())
      .where(sql`${t.deletedAt} is not null`),
  ],
)

export const objectBlobs = pgTable(
  'object_blobs',
  {
    objectId: uuid('object_id').notNull(),
    n: integer().notNull(),
    blobId: uuid('blob_id')
      .notNull()
      .references(() => blobs.id),
    length: bytes('length').notNull(),
    /** The multipart upload's part that the blob belongs to, and that part's checksum. */
    part: integer(),
    partChecksum: text('part_checksum'),
  },
  (t) => [
    primaryKey({ columns: [t.objectId, t.n] }),
    foreignKey({ columns: [t.objectId], foreignColumns: [objects.id] }).onDelete('cascade'),
    index('object_blobs_by_blob').on(t.blobId),
  ],
)

export type UploadState = 'pending' | 'ready' | 'completed' | 'failed' | 'expired'

/**
 * Bytes on their way to becoming an object: an upload session of the REST API, a tus upload, an S3 multipart upload. Also the
 * parts of a deployment's archive, which never becomes an object.
 */
export const uploads = pgTable(
  'uploads',
  {
    id: uuid().primaryKey(),
    kind: text().$type<'session' | 'tus' | 's3' | 'deployment'>().notNull(),
    /** null: a partial upload that did not name the concatenation's target. */
    bucketId: uuid('bucket_id').references(() => buckets.id),
    key: keyText('key').notNull(),
    contentType: text('content_type').notNull(),
    headers: jsonb().$type<ObjectHeaders>().notNull(),
    metadata: jsonb().$type<Record<string, string>>().notNull(),
    tags: jsonb().$type<StoredTags>().notNull(),
    /** As declared; null: not known yet, or never (s3). */
    contentLength: bytes('content_length'),
    checksumMd5: bytea('checksum_md5'),
    checksumSha1: bytea('checksum_sha1'),
    checksumSha256: bytea('checksum_sha256'),
    /** s3: the algorithm of the parts' additional checksums. */
    checksumAlgorithm: text('checksum_algorithm').$type<ObjectChecksum['algorithm']>(),
    checksumType: text('checksum_type').$type<ObjectChecksum['type']>(),
    /** Committed bytes, on which the client may rely. */
    offset: bytes('offset').notNull().default(0),
    /** The states of MD5, SHA-1 and SHA-256 after `offset` bytes, as hash-wasm saves them. */
    hashState: bytea('hash_state'),
    /** SHA-256 of the token in the upload's URL. */
    tokenHash: bytea('token_hash'),
    /** tus concatenation: a partial upload never becomes an object by itself. */
    isPartial: boolean('is_partial').notNull().default(false),
    /** tus: Upload-Concat of a concatenation, as sent. */
    concatenates: text(),
    /** tus: Upload-Metadata, as sent. */
    uploadMetadata: text('upload_metadata'),
    /** Becomes an object only if the key is unused (If-None-Match: *). */
    isNewOnly: boolean('is_new_only').notNull().default(false),
    /** Its creator; only uploads of one creator can be concatenated. */
    createdBy: text('created_by'),
    /** The request that may append now; taking over the lease locks the previous holder out. */
    leaseHolder: uuid('lease_holder'),
    state: text().$type<UploadState>().notNull(),
    failureReason: text('failure_reason'),
    /** The object it became. */
    objectId: uuid('object_id'),
    uploadedAt: instant('uploaded_at'),
    expiresAt: instant('expires_at').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    index('uploads_by_bucket').on(t.bucketId, t.kind, t.key, t.id),
    index('uploads_by_expiry').on(t.expiresAt),
    index('uploads_of_deployments')
      .on(t.id)
      .where(sql`${t.kind} = 'deployment'`),
    check('uploads_state', sql`${t.state} in ('pending', 'ready', 'completed', 'failed', 'expired')`),
  ],
)

/** The blobs of an upload so far. A part (s3: 1 to 10,000; tus: counted up) is itself a sequence of blobs. */
export const uploadBlobs = pgTable(
  'upload_blobs',
  {
    uploadId: uuid('upload_id')
      .notNull()
      .references(() => uploads.id, { onDelete: 'cascade' }),
    part: integer().notNull(),
    n: integer().notNull(),
    blobId: uuid('blob_id')
      .notNull()
      .references(() => blobs.id),
    length: bytes('length').notNull(),
    /** s3: of the whole part, repeated on each of its blobs. */
    etag: text(),
    checksum: text(),
    uploadedAt: instant('uploaded_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.uploadId, t.part, t.n] }), index('upload_blobs_by_blob').on(t.blobId)],
)

/** A bucket's counts, spread over 16 rows of which a writer updates any; their sum is right at every commit. */
export const bucketCounts = pgTable(
  'bucket_counts',
  {
    bucketId: uuid('bucket_id')
      .notNull()
      .references(() => buckets.id, { onDelete: 'cascade' }),
    shard: smallint().notNull(),
    objects: bytes('objects').notNull(),
    bytes: bytes('bytes').notNull(),
    trashed: bytes('trashed').notNull(),
    trashedBytes: bytes('trashed_bytes').notNull(),
  },
  (t) => [primaryKey({ columns: [t.bucketId, t.shard] })],
)

/** What an organization stores, as of the worker's last sum (stored-bytes.ts). */
export const storedBytes = pgTable('stored_bytes', {
  organizationId: uuid('organization_id')
    .primaryKey()
    .references(() => organizations.id, { onDelete: 'cascade' }),
  /** Bytes of live objects. */
  bytes: bytes('bytes').notNull(),
  trashedBytes: bytes('trashed_bytes').notNull(),
  /** Bytes of open uploads. */
  uploadingBytes: bytes('uploading_bytes').notNull(),
  /** True if these together reach the quota of bytes. */
  isFull: boolean('is_full').notNull(),
  /** When a sum last changed. */
  measuredAt: instant('measured_at').notNull(),
})
