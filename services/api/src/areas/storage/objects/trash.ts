import { Conflict, NotFound } from '@platform/errors/api-error'
import { type Db, isUniqueViolation } from '@platform/runtime/database'
import { and, eq, getTableColumns, gt, isNotNull, isNull, lt, type SQL, sql, sum } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import type { StoredObject } from './commit-object.ts'
import { addToCounts } from './counts.ts'
import { withinPrefix } from './key-range.ts'
import { bucketCounts, buckets, objects } from './table.ts'

/** Few enough that a statement needs a fraction of its 5 s. */
const MOVED_AT_ONCE = 5_000
/** This many ids take some megabytes. */
const FOUND_AT_ONCE = 100_000
const DAY_MS = 86_400_000

type WriteDeps = Pick<StorageDeps, 'db' | 'now'>
const count = sql`count(*)`
const length = sql`coalesce(sum(content_length), 0)`
const intoTrash = { objects: sql`-${count}`, bytes: sql`-${length}`, trashed: count, trashedBytes: length }
const outOfTrash = { objects: count, bytes: length, trashed: sql`-${count}`, trashedBytes: sql`-${length}` }
const outOfBucket = { objects: sql`0`, bytes: sql`0`, trashed: sql`-${count}`, trashedBytes: sql`-${length}` }

const changed = sql.raw('changed')
/** The columns of an object, selected from a step named `changed`. */
const whole = Object.fromEntries(
  Object.entries(getTableColumns(objects)).map(([key, column]) => [
    key,
    sql`${changed}.${sql.identifier(column.name)}`.mapWith(column),
  ]),
)

/** Changes objects of a bucket and updates its counts, in one statement. Returns the changed objects. */
async function change(
  db: Db,
  bucketId: string,
  step: SQL,
  counts: Parameters<typeof addToCounts>[1],
): Promise<StoredObject[]> {
  const rows = await db
    .with(
      db.$with('changed', {}).as(step),
      db.$with('counted', {}).as(addToCounts(bucketId, counts, sql`${changed} having count(*) > 0`)),
    )
    .select(whole)
    .from(changed)
  return rows as StoredObject[]
}

/** The same, but returns only their number. */
async function changeMany(
  db: Db,
  bucketId: string,
  step: SQL,
  counts: Parameters<typeof addToCounts>[1],
): Promise<number> {
  const [row] = await db
    .with(
      db.$with('changed', {}).as(step),
      db.$with('counted', {}).as(addToCounts(bucketId, counts, sql`${changed} having count(*) > 0`)),
    )
    .select({ count: sql`count(*)`.mapWith(Number) })
    .from(changed)
  return row?.count ?? 0
}

/** Repeats a step until it finds nothing more. Returns the total number of changed objects. */
async function inSteps(step: () => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const moved = await step()
    total += moved
    if (moved < MOVED_AT_ONCE) return total
  }
}

const live = (bucketId: string, more: SQL | undefined): SQL | undefined =>
  and(eq(objects.bucketId, bucketId), isNull(objects.deletedAt), more)
const trashed = (bucketId: string, more: SQL | undefined): SQL | undefined =>
  and(eq(objects.bucketId, bucketId), isNotNull(objects.deletedAt), more)

/**
 * SQL: matches the ids that a query yields, looked up by primary key. With `in (…)` and a condition that another index covers,
 * Postgres compared each id with all live or trashed objects if its statistics were older than the objects.
 */
const hasIdIn = (ids: SQL, is: 'live' | 'trashed'): SQL =>
  sql`${objects.id} = any(array(${ids})) and num_nulls(${objects.deletedAt}) = ${is === 'live' ? 1 : 0}`

const moveToTrash = (time: Date, which: SQL | undefined): SQL =>
  sql`update ${objects} set deleted_at = ${time.toISOString()}, updated_at = ${time.toISOString()} where ${which}
    returning ${objects}.*`

/** Moves live objects to the trash by their keys. Returns those that existed. */
export function trashObjects(
  { db, now }: WriteDeps,
  bucketId: string,
  keys: readonly string[],
): Promise<StoredObject[]> {
  const named = sql`${objects.key} in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))`
  // Locks in the same order as writers of several keys, so that the two cannot deadlock.
  const inOrder = sql`${objects.id} in (select ${objects.id} from ${objects} where ${live(bucketId, named)}
    order by ${objects.key} for update)`
  return change(db, bucketId, moveToTrash(now(), and(isNull(objects.deletedAt), inOrder)), intoTrash)
}

/** Moves a live object to the trash (A §3). Throws NotFound. */
export async function trashObject({ db, now }: WriteDeps, bucketId: string, id: string): Promise<void> {
  const moved = await change(db, bucketId, moveToTrash(now(), live(bucketId, eq(objects.id, id))), intoTrash)
  if (moved.length === 0) throw new NotFound('Object')
}

/** Moves everything below a prefix to the trash, some thousands at a time. Returns how many. */
export function trashBelow({ db, now }: WriteDeps, bucketId: string, prefix: string): Promise<number> {
  return inSteps(() => {
    const next = sql`select ${objects.id} from ${objects}
      where ${live(bucketId, withinPrefix(objects.key, prefix))} order by ${objects.key} limit ${MOVED_AT_ONCE}`
    return changeMany(db, bucketId, moveToTrash(now(), hasIdIn(next, 'live')), intoTrash)
  })
}

/** Restoring requires the bucket to stay: its row is locked against deletion. */
const restore = (time: Date, bucketId: string, which: SQL | undefined): SQL =>
  sql`update ${objects} set deleted_at = null, updated_at = ${time.toISOString()}
    where ${which} and exists (
      select from ${buckets} where ${buckets.id} = ${bucketId} and ${buckets.deletedAt} is null for key share)
    returning ${objects}.*`

/** Restores an object under its key. Throws NotFound, and Conflict if the key is in use (A §3). */
export async function restoreObject({ db, now }: WriteDeps, bucketId: string, id: string): Promise<StoredObject> {
  try {
    const step = restore(now(), bucketId, trashed(bucketId, eq(objects.id, id)))
    const [restored] = await change(db, bucketId, step, outOfTrash)
    if (!restored) throw new NotFound('Object')
    return restored
  } catch (error) {
    if (isUniqueViolation(error, 'objects_live')) throw new Conflict('The key is in use by another object')
    throw error
  }
}

/**
 * SQL: true if no live object has the key. A scalar subquery, which Postgres looks up for each key: as `not exists` it compared
 * each key with all live objects of the bucket if its statistics were older than the objects.
 */
const isFree = (bucketId: string, key: SQL): SQL =>
  sql`(select o.id from ${objects} o where o.bucket_id = ${bucketId} and o.key = ${key} and o.deleted_at is null) is null`

/** Restores those of some trashed objects whose keys are free. */
async function restoreSome({ db, now }: WriteDeps, bucketId: string, ids: readonly string[]): Promise<number> {
  const idRows = sql`select jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb)::uuid`
  for (;;) {
    try {
      return await changeMany(
        db,
        bucketId,
        restore(now(), bucketId, sql`${hasIdIn(idRows, 'trashed')} and ${isFree(bucketId, sql`${objects.key}`)}`),
        outOfTrash,
      )
    } catch (error) {
      // Somebody took one of the keys meanwhile: look again.
      if (!isUniqueViolation(error, 'objects_live')) throw error
    }
  }
}

/**
 * Restores trashed objects below a prefix, for each key the one deleted last; keys in use stay as they are. deletedAfter: only
 * objects deleted later than this. Returns how many were restored.
 */
export async function restoreBelow(
  deps: WriteDeps,
  bucketId: string,
  { prefix, deletedAfter }: { prefix?: string | undefined; deletedAfter?: Date | undefined },
): Promise<number> {
  const candidates = trashed(
    bucketId,
    and(withinPrefix(objects.key, prefix ?? ''), deletedAfter && gt(objects.deletedAt, deletedAfter)),
  )
  // No index covers the trash by key, so each query sorts all of it; it therefore fetches far more than a step restores.
  const latest = sql<{ id: string }>`select id from (
    select distinct on (${objects.key}) ${objects.id} as id, ${objects.key} as key from ${objects} where ${candidates}
    order by ${objects.key}, ${objects.deletedAt} desc, ${objects.id} desc) latest
    where ${isFree(bucketId, sql`latest.key`)}
    limit ${FOUND_AT_ONCE}`
  for (let total = 0; ;) {
    const ids = (await deps.db.execute<{ id: string }>(latest)).map(({ id }) => id)
    let restored = 0
    for (let n = 0; n < ids.length; n += MOVED_AT_ONCE)
      restored += await restoreSome(deps, bucketId, ids.slice(n, n + MOVED_AT_ONCE))
    total += restored
    if (restored === 0 || ids.length < FOUND_AT_ONCE) return total
  }
}

const purge = (which: SQL | undefined): SQL => sql`delete from ${objects} where ${which} returning ${objects}.*`

/** Removes a trashed object for good; its bytes go with the next collection. Throws NotFound. */
export async function purgeObject({ db }: Pick<StorageDeps, 'db'>, bucketId: string, id: string): Promise<void> {
  const gone = await changeMany(db, bucketId, purge(trashed(bucketId, eq(objects.id, id))), outOfBucket)
  if (gone === 0) throw new NotFound('Object')
}

/**
 * Removes everything in a bucket's trash, or only what was deleted before an instant, some thousands at a time. Returns how many
 * (wire.md).
 */
export function emptyTrash({ db }: Pick<StorageDeps, 'db'>, bucketId: string, before?: Date): Promise<number> {
  const isOver = before && lt(objects.deletedAt, before)
  return inSteps(() => {
    const next = sql`select ${objects.id} from ${objects} where ${trashed(bucketId, isOver)} limit ${MOVED_AT_ONCE}`
    return changeMany(db, bucketId, purge(hasIdIn(next, 'trashed')), outOfBucket)
  })
}

/** Removes objects for good that have been in the trash for `keptDays`; 0 keeps them. */
export async function discardTrash({ db, now }: WriteDeps, keptDays: number): Promise<void> {
  if (keptDays === 0) return
  const before = new Date(now().getTime() - keptDays * DAY_MS)
  const withTrash = db
    .select({ id: bucketCounts.bucketId })
    .from(bucketCounts)
    .groupBy(bucketCounts.bucketId)
    .having(gt(sum(bucketCounts.trashed), sql`0`))
  for (const { id } of await withTrash) await emptyTrash({ db }, id, before)
}
