import { randomInt } from 'node:crypto'
import { type Db, isDeadlock, isUnavailable } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { sql } from 'drizzle-orm'
import { COUNT_SHARDS } from './counts.ts'
import { blobs, bucketCounts, buckets, objectBlobs, objects } from './table.ts'

/** Maximum objects per statement; the rest wait for the next: 64 of 16 KiB are 1 MiB. */
const TOGETHER_MAX = 64
/** While this many statements are in progress, arriving objects are collected: the busier the database, the larger the groups. */
const UNDER_WAY_MAX = 2

/** A plain object as the statement's input: no condition, and at most one blob, whose bytes are passed along. */
interface SmallObject {
  id: string
  bucket_id: string
  key: string
  content_type: string
  content_length: number
  etag: string
  md5: string | null
  sha1: string | null
  sha256: string | null
  checksum: object | null
  headers: object
  metadata: object
  tags: object
  upload_session_id: string | null
  at: Date
  blob_id: string | null
  crc32: number | null
}

const objectRows = sql.raw('given')

/**
 * Like `commitStatement` of commit-object.ts, for several objects under different keys. All statements lock in the same order:
 * buckets, old objects by key, new ones by key, counts by bucket. Returns the ids of the created objects: all except those of
 * deleted buckets.
 */
const commitAllStatement = lazyPrepared((db) => {
  const step = (name: string, query: ReturnType<typeof sql>) => db.$with(name, {}).as(query)
  return db
    .with(
      step(
        'given',
        sql`select * from json_to_recordset(${sql.placeholder('objects')}::json) as g(
          id uuid, bucket_id uuid, key text collate "C", content_type text, content_length bigint, etag text, md5 text,
          sha1 text, sha256 text, checksum jsonb, headers jsonb, metadata jsonb, tags jsonb, upload_session_id uuid,
          at timestamptz, blob_id uuid, crc32 bigint, start integer) order by bucket_id, key`,
      ),
      step(
        'bucket',
        sql`select ${buckets.id} from ${buckets} where ${buckets.id} = any(${sql.placeholder('buckets')}::uuid[])
          and ${buckets.deletedAt} is null order by ${buckets.id} for key share`,
      ),
      // Looks up one after another, by the index: a join might read the whole table while it has not been analysed.
      step(
        'live',
        sql`select l.id, g.at from ${objectRows} g join bucket on bucket.id = g.bucket_id, lateral (
          select o.id from ${objects} o where o.bucket_id = g.bucket_id and o.key = g.key and o.deleted_at is null
          for update limit 1) l`,
      ),
      step(
        'old',
        sql`update ${objects} o set deleted_at = l.at, updated_at = l.at from live l where o.id = l.id
          returning o.bucket_id, o.content_length`,
      ),
      step(
        'freed',
        sql`select bucket_id, count(*) as objects, sum(content_length) as bytes from old group by bucket_id`,
      ),
      // Counting the rows of `old` forces it to run before the insert, whose keys it frees.
      step(
        'made',
        sql`insert into ${objects} (id, bucket_id, key, content_type, content_length, etag, checksum_md5, checksum_sha1,
            checksum_sha256, checksum, headers, metadata, tags, blob_count, upload_session_id, uploaded_at, created_at,
            updated_at)
          select g.id, g.bucket_id, g.key, g.content_type, g.content_length, g.etag, decode(g.md5, 'hex'),
            decode(g.sha1, 'hex'), decode(g.sha256, 'hex'), g.checksum, g.headers, g.metadata, g.tags,
            case when g.blob_id is null then 0 else 1 end, g.upload_session_id, g.at, g.at, g.at
          from ${objectRows} g join bucket on bucket.id = g.bucket_id
          where (select count(*) from freed) >= 0 order by g.bucket_id, g.key
          returning id, bucket_id, content_length`,
      ),
      // All bytes are passed as one value: as digits within the JSON they took a fifth of the statement's time to parse.
      step(
        'inserted',
        sql`insert into ${blobs} (id, state, length, crc32, content, created_at)
          select g.blob_id, 'live', g.content_length, g.crc32,
            substring(${sql.placeholder('contents')}::bytea from g.start for g.content_length::integer), g.at
          from ${objectRows} g join made on made.id = g.id where g.blob_id is not null`,
      ),
      step(
        'linked',
        sql`insert into ${objectBlobs} (object_id, n, blob_id, length)
          select g.id, 0, g.blob_id, g.content_length from ${objectRows} g join made on made.id = g.id
          where g.blob_id is not null`,
      ),
      step(
        'counted',
        sql`insert into ${bucketCounts} as c (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
          select made.bucket_id, ${sql.placeholder('shard')}::smallint, count(*) - coalesce(max(freed.objects), 0),
            sum(made.content_length) - coalesce(max(freed.bytes), 0), coalesce(max(freed.objects), 0),
            coalesce(max(freed.bytes), 0)
          from made left join freed on freed.bucket_id = made.bucket_id group by made.bucket_id order by made.bucket_id
          on conflict (bucket_id, shard) do update set objects = c.objects + excluded.objects,
            bytes = c.bytes + excluded.bytes, trashed = c.trashed + excluded.trashed,
            trashed_bytes = c.trashed_bytes + excluded.trashed_bytes`,
      ),
    )
    .select({ id: sql<string>`id` })
    .from(sql.raw('made'))
    .prepare('commit_together')
})

/**
 * true: committed; false: bucket deleted; 'alone': nothing done (e.g. another transaction has one of the keys), commit it by
 * itself.
 */
type Outcome = boolean | 'alone'

interface Waiting {
  object: SmallObject
  content: Buffer
  done: (outcome: Outcome) => void
  fail: (error: unknown) => void
}

const nameOf = ({ bucket_id: bucketId, key }: SmallObject): string => `${bucketId}/${key}`

const committer = lazyPrepared((db) => {
  let waiting: Waiting[] = []
  let underWay = 0
  let isScheduled = false

  async function commit(together: readonly Waiting[]): Promise<void> {
    let start = 1
    const objectValues = together.map(({ object, content }) => {
      const placed = { ...object, start }
      start += content.length
      return placed
    })
    const ids = new Set(objectValues.map(({ bucket_id: bucketId }) => bucketId))
    try {
      const made = await commitAllStatement(db).execute({
        objects: JSON.stringify(objectValues),
        contents: Buffer.concat(together.map(({ content }) => content)),
        buckets: `{${[...ids].join(',')}}`,
        shard: randomInt(COUNT_SHARDS),
      })
      const madeIds = new Set(made.map(({ id }) => id))
      for (const { object, done } of together) done(madeIds.has(object.id))
    } catch (error) {
      // If Postgres rejected the statement because of one object, none was committed. Without an answer the outcome is unknown.
      const isRefused = !isUnavailable(error) || isDeadlock(error)
      for (const { done, fail } of together) {
        if (isRefused) done('alone')
        else fail(error)
      }
    }
  }

  /** The longest waiting objects with different keys; further ones of a key come later. */
  function next(): Waiting[] {
    const names = new Set<string>()
    const together: Waiting[] = []
    const later: Waiting[] = []
    for (const one of waiting) {
      const name = nameOf(one.object)
      if (together.length === TOGETHER_MAX || names.has(name)) later.push(one)
      else {
        names.add(name)
        together.push(one)
      }
    }
    waiting = later
    return together
  }

  function start(): void {
    isScheduled = false
    while (underWay < UNDER_WAY_MAX && waiting.length > 0) {
      underWay++
      void commit(next()).finally(() => {
        underWay--
        schedule()
      })
    }
  }

  function schedule(): void {
    if (isScheduled || waiting.length === 0 || underWay >= UNDER_WAY_MAX) return
    isScheduled = true
    setImmediate(start)
  }

  return (object: SmallObject, content: Buffer) =>
    new Promise<Outcome>((done, fail) => {
      waiting.push({ object, content, done, fail })
      schedule()
    })
})

const nothing: Buffer = Buffer.alloc(0)

/**
 * Commits an object together with those that arrive meanwhile, in one statement: one disk sync for all of them. An idle service
 * commits each at once. content: its blob's bytes.
 */
export const groupCommit = (db: Db, object: SmallObject, content = nothing): Promise<Outcome> =>
  committer(db)(object, content)
