import { randomInt } from 'node:crypto'
import { NotFound, PreconditionFailed, Unavailable } from '@platform/errors/api-error'
import { type Db, isDeadlock, isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { sql } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import { groupCommit } from './group-commit.ts'
import { COUNT_SHARDS } from './counts.ts'
import type { NewBlob } from './receive-body.ts'
import {
  bucketCounts,
  blobs,
  buckets,
  objectBlobs,
  type ObjectChecksum,
  type ObjectHeaders,
  objects,
  type StoredTags,
} from './table.ts'

/** Writers that collide on a key retry; of a hundred at once each loses ninety-nine times at most. */
const ATTEMPTS_MAX = 200

export type StoredObject = typeof objects.$inferSelect

/** A blob that is already live, since an upload or an object being copied refers to it. */
export interface LiveBlob {
  id: string
  length: number
}

/** A piece of an object's content, in order. part, partChecksum: its part in a multipart upload. */
export type ObjectBlob = (NewBlob | LiveBlob) & { part?: number; partChecksum?: string | undefined }

/** The object to create. */
export interface NewObject {
  key: string
  contentType: string
  contentLength: number
  /** Without quotes. */
  etag: string
  md5?: Buffer | null
  sha1?: Buffer | null
  sha256?: Buffer | null
  checksum?: ObjectChecksum | null
  headers?: ObjectHeaders
  metadata?: Record<string, string>
  tags?: StoredTags
  uploadSessionId?: string | null
  blobs: readonly ObjectBlob[]
  /** Checked in the same statement that writes. ifMatch: the etag of the live object without quotes, or `*` for any. */
  condition?: { ifNoneMatch: true } | { ifMatch: string } | undefined
}

const isNew = (blob: ObjectBlob): blob is NewBlob => 'crc32' in blob

const objectRow = sql.raw('given')
const pieces = sql.raw('pieces')

/**
 * One statement that moves the key's previous object to the trash, inserts the new one, makes its blobs live and updates the
 * counts: all or nothing. Its result says which of the steps found what they needed.
 *
 * Locks the bucket's row against deletion, and blobs that others refer to against collection.
 */
const commitStatement = lazyPrepared((db) => {
  const step = (name: string, query: ReturnType<typeof sql>) => db.$with(name, {}).as(query)
  return db
    .with(
      step(
        'given',
        sql`select * from json_to_record(${sql.placeholder('object')}::json) as g(
          id uuid, bucket_id uuid, key text, content_type text, content_length bigint, etag text, md5 text, sha1 text,
          sha256 text, checksum jsonb, headers jsonb, metadata jsonb, tags jsonb, upload_session_id uuid, at timestamptz,
          if_none_match boolean, if_match text, shard smallint)`,
      ),
      step(
        'pieces',
        sql`select * from json_to_recordset(${sql.placeholder('blobs')}::json) as p(
          n integer, blob_id uuid, length bigint, crc32 bigint, content text, part integer, part_checksum text)`,
      ),
      step(
        'bucket',
        sql`select ${buckets.id} from ${buckets}
          where ${buckets.id} = (select bucket_id from ${objectRow}) and ${buckets.deletedAt} is null for key share`,
      ),
      step(
        'pending',
        sql`select id from ${blobs} where id in (select blob_id from ${pieces} where content is null and crc32 is not null)
          and state = 'pending' for update`,
      ),
      step(
        'held',
        sql`select id from ${blobs} where id in (select blob_id from ${pieces} where crc32 is null)
          and state = 'live' for key share`,
      ),
      step(
        'ready',
        sql`select true as is_ready where exists (select from bucket) and not exists (
          select from ${pieces} where content is null and blob_id not in
            (select id from pending union all select id from held))`,
      ),
      // With scalar subqueries both columns of the index are used whatever the planner estimates: as a join it read all live
      // objects while the table had not been analysed.
      step(
        'old',
        sql`update ${objects} o set deleted_at = g.at, updated_at = g.at from ${objectRow} g
          where exists (select from ready) and o.bucket_id = (select bucket_id from ${objectRow})
            and o.key = (select key from ${objectRow}) and o.deleted_at is null and not g.if_none_match
            and (g.if_match is null or g.if_match = '*' or o.etag = g.if_match)
          returning o.id, o.content_length`,
      ),
      // Counting the rows of `old` forces it to run before the insert, whose key it frees.
      step('freed', sql`select count(*) as objects, coalesce(sum(content_length), 0) as bytes from old`),
      step(
        'made',
        sql`insert into ${objects} (id, bucket_id, key, content_type, content_length, etag, checksum_md5, checksum_sha1,
            checksum_sha256, checksum, headers, metadata, tags, blob_count, upload_session_id, uploaded_at, created_at,
            updated_at)
          select g.id, g.bucket_id, g.key, g.content_type, g.content_length, g.etag, decode(g.md5, 'hex'),
            decode(g.sha1, 'hex'), decode(g.sha256, 'hex'), g.checksum, g.headers, g.metadata, g.tags,
            (select count(*) from ${pieces}), g.upload_session_id, g.at, g.at, g.at
          from ${objectRow} g, freed
          where exists (select from ready) and (g.if_match is null or freed.objects > 0)
            and not (g.if_none_match and exists (
              select from ${objects} o where o.bucket_id = g.bucket_id and o.key = g.key and o.deleted_at is null))
          returning bucket_id, content_length`,
      ),
      // Only blobs of an inserted object become live: otherwise they stay pending, for the caller to discard.
      step(
        'inserted',
        sql`insert into ${blobs} (id, state, length, crc32, content, created_at)
          select blob_id, 'live', length, crc32, decode(content, 'hex'), (select at from ${objectRow})
          from ${pieces} where content is not null and exists (select from made)`,
      ),
      step(
        'enlivened',
        sql`update ${blobs} b set state = 'live', length = p.length, crc32 = p.crc32 from ${pieces} p
          where b.id = p.blob_id and p.content is null and p.crc32 is not null and exists (select from made)`,
      ),
      step(
        'linked',
        sql`insert into ${objectBlobs} (object_id, n, blob_id, length, part, part_checksum)
          select g.id, p.n, p.blob_id, p.length, p.part, p.part_checksum from ${pieces} p, ${objectRow} g
          where exists (select from made)`,
      ),
      step(
        'counted',
        sql`insert into ${bucketCounts} as c (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
          select made.bucket_id, g.shard, 1 - freed.objects, made.content_length - freed.bytes, freed.objects, freed.bytes
          from made, freed, ${objectRow} g
          on conflict (bucket_id, shard) do update set objects = c.objects + excluded.objects,
            bytes = c.bytes + excluded.bytes, trashed = c.trashed + excluded.trashed,
            trashed_bytes = c.trashed_bytes + excluded.trashed_bytes`,
      ),
    )
    .select({
      hasBucket: sql<boolean>`exists (select from bucket)`,
      isReady: sql<boolean>`exists (select from ready)`,
      isMade: sql<boolean>`exists (select from made)`,
    })
    .from(objectRow)
    .prepare('commit_object')
})

const hex = (bytes: Buffer | null | undefined): string | null => bytes?.toString('hex') ?? null

/** The columns of a new object, except binary ones. */
const rowOf = (bucketId: string, object: NewObject) => ({
  id: newId(),
  bucketId,
  key: object.key,
  contentType: object.contentType,
  contentLength: object.contentLength,
  etag: object.etag,
  checksum: object.checksum ?? null,
  headers: object.headers ?? {},
  metadata: object.metadata ?? {},
  tags: object.tags ?? {},
  uploadSessionId: object.uploadSessionId ?? null,
})
type NewRow = ReturnType<typeof rowOf>

/** The same as parameters of the statements. */
const asGiven = (row: NewRow, time: Date, object: NewObject) => ({
  id: row.id,
  bucket_id: row.bucketId,
  key: row.key,
  content_type: row.contentType,
  content_length: row.contentLength,
  etag: row.etag,
  md5: hex(object.md5),
  sha1: hex(object.sha1),
  sha256: hex(object.sha256),
  checksum: row.checksum,
  headers: row.headers,
  metadata: row.metadata,
  tags: row.tags,
  upload_session_id: row.uploadSessionId,
  at: time,
})

const asStored = (row: NewRow, time: Date, object: NewObject): StoredObject => ({
  ...row,
  checksumMd5: object.md5 ?? null,
  checksumSha1: object.sha1 ?? null,
  checksumSha256: object.sha256 ?? null,
  blobCount: object.blobs.length,
  uploadedAt: time,
  createdAt: time,
  updatedAt: time,
  deletedAt: null,
})

async function commitOnce(db: Db, time: Date, bucketId: string, object: NewObject): Promise<StoredObject> {
  const { condition } = object
  const row = rowOf(bucketId, object)
  const rows = await commitStatement(db).execute({
    object: JSON.stringify({
      ...asGiven(row, time, object),
      if_none_match: condition !== undefined && 'ifNoneMatch' in condition,
      if_match: condition && 'ifMatch' in condition ? condition.ifMatch : null,
      shard: randomInt(COUNT_SHARDS),
    }),
    blobs: JSON.stringify(
      object.blobs.map((blob, n) => ({
        n,
        blob_id: blob.id,
        length: blob.length,
        crc32: isNew(blob) ? blob.crc32 : null,
        content: isNew(blob) ? hex(blob.content) : null,
        part: blob.part,
        part_checksum: blob.partChecksum,
      })),
    ),
  })
  const { hasBucket, isReady, isMade } = one(rows)
  if (!hasBucket) throw new NotFound('Bucket')
  if (!isReady) throw new NotFound('Object') // the source of the copy is gone, or the upload took over a day
  if (!isMade) throw new PreconditionFailed()
  return asStored(row, time, object)
}

/** The single blob of a small object, or null for an empty object; undefined for anything more complex. */
function onlyContent({ blobs: objectBlobs, condition }: NewObject): NewBlob | null | undefined {
  const [blob, ...more] = objectBlobs
  if (condition || more.length > 0) return undefined
  if (!blob) return null
  return isNew(blob) && blob.content && blob.part === undefined ? blob : undefined
}

/** Commits a small object in a group. Returns undefined if it has to be committed by itself. */
async function tryTogether(db: Db, time: Date, bucketId: string, object: NewObject): Promise<StoredObject | undefined> {
  const blob = onlyContent(object)
  if (blob === undefined) return undefined
  const row = rowOf(bucketId, object)
  const outcome = await groupCommit(
    db,
    { ...asGiven(row, time, object), blob_id: blob?.id ?? null, crc32: blob?.crc32 ?? null },
    blob?.content,
  )
  if (outcome === 'alone') return undefined
  if (!outcome) throw new NotFound('Bucket')
  return asStored(row, time, object)
}

async function untilNobodyIsInTheWay<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt()
    } catch (error) {
      if (!isUniqueViolation(error, 'objects_live') && !isDeadlock(error)) throw error
      if (attempts === ATTEMPTS_MAX) throw new Unavailable('Too many writers of one key; try again later', error)
    }
  }
}

/**
 * Creates an object from blobs, in one transaction with moving the key's previous object to the trash (D37), and grouped with
 * other small objects being committed. When this resolves, the object is durable and readable; when it throws, there is none,
 * unless the connection broke meanwhile.
 *
 * Throws PreconditionFailed, and NotFound if the bucket was deleted meanwhile.
 */
export async function commitObject(
  { db, now }: Pick<StorageDeps, 'db' | 'now'>,
  bucketId: string,
  object: NewObject,
): Promise<StoredObject> {
  const committed = await tryTogether(db, now(), bucketId, object)
  return committed ?? untilNobodyIsInTheWay(() => commitOnce(db, now(), bucketId, object))
}

/** The same within a larger transaction: turns the contents of a multipart or resumable upload into an object. */
export const commitObjectWithin = (tx: Db, time: Date, bucketId: string, object: NewObject): Promise<StoredObject> =>
  untilNobodyIsInTheWay(() => tx.transaction((savepoint) => commitOnce(savepoint, time, bucketId, object)))
