import { and, asc, desc, eq, getTableColumns, gte, isNotNull, isNull, lt, or, sql, count } from 'drizzle-orm'
import { z } from '@hono/zod-openapi'
import type { StorageDeps } from '../deps.ts'
import { readCursor, writeCursor } from '../../../http/pages.ts'
import type { StoredObject } from './commit-object.ts'
import { countBucket } from './counts.ts'
import { justAfter, successor, withinPrefix } from './key-range.ts'
import { objects } from './table.ts'

/** An entry in a page of keys, in byte order: an object, or a prefix that stands for all objects below it. */
export type KeysEntry = { kind: 'object'; object: StoredObject } | { kind: 'prefix'; prefix: string }

export interface KeysQuery {
  prefix: string
  /** Groups keys that contain it after the prefix; empty: no grouping. */
  delimiter: string
  /** The first key that may be listed, existing or not; empty: from the start. */
  from: string
  limit: number
}

type ReadDeps = Pick<StorageDeps, 'db'>

const liveIn = (bucketId: string) => and(eq(objects.bucketId, bucketId), isNull(objects.deletedAt))

async function plainPage({ db }: ReadDeps, bucketId: string, { prefix, from, limit }: KeysQuery): Promise<KeysEntry[]> {
  const rows = await db
    .select()
    .from(objects)
    .where(and(liveIn(bucketId), withinPrefix(objects.key, prefix), from > prefix ? gte(objects.key, from) : undefined))
    .orderBy(asc(objects.key))
    .limit(limit)
  return rows.map((object) => ({ kind: 'object', object }))
}

/**
 * A loose index scan: each step seeks the next key, and after a common prefix the first key beyond it. Its cost depends on what
 * it returns, never on what it skips.
 */
async function groupedPage({ db }: ReadDeps, bucketId: string, query: KeysQuery): Promise<KeysEntry[]> {
  const { prefix, delimiter, limit } = query
  const from = query.from > prefix ? query.from : prefix
  const end = prefix === '' ? undefined : successor(prefix)
  const beyond = successor(delimiter)
  const below = end === undefined ? sql`` : sql`and o.key < ${end}`
  // In characters, not UTF-16 units, as Postgres counts text.
  const start = Array.from(prefix).length
  const width = Array.from(delimiter).length
  const commonOf = (key: ReturnType<typeof sql>) =>
    sql`case when strpos(substr(${key}, ${start + 1}::int), ${delimiter}) > 0
      then left(${key}, ${start}::int + strpos(substr(${key}, ${start + 1}::int), ${delimiter}) - 1 + ${width}::int) end`
  const seek = (least: ReturnType<typeof sql>) =>
    sql`select o.key from ${objects} o where o.bucket_id = ${bucketId} and o.deleted_at is null and o.key >= ${least} ${below}
      order by o.key limit 1`
  const after =
    beyond === undefined
      ? sql`case when step.common is null then step.key || chr(1) end` // no key can follow such a prefix
      : sql`case when step.common is null then step.key || chr(1) else left(step.common, -${width}::int) || ${beyond}::text end`
  const steps = sql`(
    with recursive step(key, common, n) as (
      (select first.key, ${commonOf(sql`first.key`)}, 1 from (${seek(sql`${from}::text`)}) first)
      union all
      (select next.key, ${commonOf(sql`next.key`)}, step.n + 1 from step, lateral (${seek(after)}) next where step.n < ${limit})
    ) select * from step) step`
  const rows = await db
    .select({ common: sql<string | null>`step.common`, object: getTableColumns(objects) })
    .from(steps)
    .leftJoin(objects, and(liveIn(bucketId), sql`${objects.key} = step.key`, sql`step.common is null`))
    .orderBy(sql`step.n`)
  return rows.flatMap(({ common, object }): KeysEntry[] => {
    if (common !== null) return [{ kind: 'prefix', prefix: common }]
    return object ? [{ kind: 'object', object }] : [] // moved to the trash between the steps
  })
}

/**
 * A page of a bucket's keys in byte order. next: the `from` of the next page; null on the last page. Stays correct while keys are
 * added and removed.
 */
export async function keysPage(
  deps: ReadDeps,
  bucketId: string,
  query: KeysQuery,
): Promise<{ entries: KeysEntry[]; next: string | null }> {
  const oneMore = { ...query, limit: query.limit + 1 }
  const entries = await (query.delimiter === '' ? plainPage : groupedPage)(deps, bucketId, oneMore)
  if (entries.length <= query.limit) return { entries, next: null }
  const kept = entries.slice(0, query.limit)
  const last = kept.at(-1)
  if (!last) return { entries: [], next: null }
  const next = last.kind === 'object' ? justAfter(last.object.key) : successor(last.prefix)
  return { entries: kept, next: next ?? null }
}

async function countBelow({ db }: ReadDeps, bucketId: string, prefix: string): Promise<number> {
  if (prefix === '') return (await countBucket({ db }, bucketId)).objects
  const [row] = await db
    .select({ total: count() })
    .from(objects)
    .where(and(liveIn(bucketId), withinPrefix(objects.key, prefix)))
  return row?.total ?? 0
}

interface CursorList {
  cursor?: string | undefined
  limit: number
}

const KeysPosition = z.object({ from: z.string(), total: z.number() })

/**
 * The objects of a bucket, by key (A §4). total: all below the prefix, grouped or not; with a prefix it is counted once, for the
 * first page, and travels in the cursor (D31).
 */
export async function objectsPage(
  deps: Pick<StorageDeps, 'db' | 'sealer'>,
  bucketId: string,
  {
    prefix = '',
    delimiter = '',
    cursor,
    limit,
  }: CursorList & { prefix?: string | undefined; delimiter?: string | undefined },
): Promise<{ items: StoredObject[]; commonPrefixes: string[]; total: number; nextCursor: string | null }> {
  const of = { operation: 'listObjects', ownerId: bucketId, filters: { prefix, delimiter } }
  const position = cursor === undefined ? undefined : readCursor(deps.sealer, of, KeysPosition, cursor)
  const [{ entries, next }, total] = await Promise.all([
    keysPage(deps, bucketId, { prefix, delimiter, from: position?.from ?? '', limit }),
    position?.total ?? countBelow(deps, bucketId, prefix),
  ])
  return {
    items: entries.flatMap((entry) => (entry.kind === 'object' ? [entry.object] : [])),
    commonPrefixes: entries.flatMap((entry) => (entry.kind === 'prefix' ? [entry.prefix] : [])),
    total,
    nextCursor: next === null ? null : writeCursor(deps.sealer, of, { from: next, total }),
  }
}

const TrashPosition = z.object({ deletedAt: z.number(), id: z.guid() })

/** A bucket's trash, newest first. */
export async function trashPage(
  deps: Pick<StorageDeps, 'db' | 'sealer'>,
  bucketId: string,
  { cursor, limit }: CursorList,
): Promise<{ items: StoredObject[]; total: number; nextCursor: string | null }> {
  const of = { operation: 'listTrash', ownerId: bucketId, filters: {} }
  const position = cursor === undefined ? undefined : readCursor(deps.sealer, of, TrashPosition, cursor)
  const deletedAt = position && new Date(position.deletedAt)
  const [rows, { trashed }] = await Promise.all([
    deps.db
      .select()
      .from(objects)
      .where(
        and(
          eq(objects.bucketId, bucketId),
          isNotNull(objects.deletedAt),
          position &&
            deletedAt &&
            or(lt(objects.deletedAt, deletedAt), and(eq(objects.deletedAt, deletedAt), lt(objects.id, position.id))),
        ),
      )
      .orderBy(desc(objects.deletedAt), desc(objects.id))
      .limit(limit + 1),
    countBucket(deps, bucketId),
  ])
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const isFinal = rows.length <= limit || !last?.deletedAt
  return {
    items,
    total: trashed,
    nextCursor: isFinal ? null : writeCursor(deps.sealer, of, { deletedAt: last.deletedAt?.getTime(), id: last.id }),
  }
}
