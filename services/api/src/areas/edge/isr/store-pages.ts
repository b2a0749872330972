import { type Db, isForeignKeyViolation } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { activateBlobs } from '../../storage/objects/activate-blobs.ts'
import { type NewBlob, receiveBlobs } from '../../storage/objects/receive-body.ts'
import type { NewPage } from './pages.ts'
import { isrPages, isrTotals } from './table.ts'

/** Limits for a deployment's pages; the oldest are evicted. */
const LIMITS = { bytesMax: 268_435_456, pagesMax: 20_000 }
/** When a limit is reached, usage is reduced to this share, so that not every page has to evict others. */
const KEPT_SHARE = 0.95
const EVICTED_AT_ONCE = 500
/** Postgres limits a payload to 8,000 bytes. */
const NAMED_AT_ONCE = 100

interface NewPages {
  deploymentId: string
  /** At most one per key. */
  pages: readonly NewPage[]
  /** Receives the deployment, `self` and the keys. */
  channel: string
  self: string
}

type StoreDeps = Pick<EdgeDeps, 'db' | 'now' | 'blobs' | 'logger'>

async function* once(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}

/** The blob of an empty page, which yields none when it is received. */
const emptyBlob = (): NewBlob => ({ id: newId(), length: 0, crc32: 0, content: Buffer.alloc(0) })

async function receivePage(deps: StoreDeps, page: NewPage) {
  const { length } = page.body
  const received = await receiveBlobs(deps, once(page.body), { length, bytesMax: length }, () => {})
  const [blob = emptyBlob(), ...more] = received.blobs
  if (more.length > 0) throw new Error(`A page of ${length} bytes did not become one blob`)
  return { page, blob, received }
}

/** Evicts the oldest pages while there are too many. Their blobs are collected later. */
async function makeRoom(
  tx: Db,
  deploymentId: string,
  totals: { pageBytes: number; pages: number },
  { bytesMax, pagesMax }: typeof LIMITS,
): Promise<void> {
  while (totals.pageBytes > bytesMax || totals.pages > pagesMax) {
    const oldest = await tx
      .select({ key: isrPages.key, bytes: isrPages.bytes })
      .from(isrPages)
      .where(eq(isrPages.deploymentId, deploymentId))
      .orderBy(asc(isrPages.begunAt))
      .limit(EVICTED_AT_ONCE)
    const gone: Buffer[] = []
    for (const { key, bytes } of oldest) {
      if (totals.pageBytes <= bytesMax * KEPT_SHARE && totals.pages <= pagesMax * KEPT_SHARE) break
      gone.push(key)
      totals.pageBytes -= bytes
      totals.pages -= 1
    }
    if (gone.length === 0) return
    await tx.delete(isrPages).where(and(eq(isrPages.deploymentId, deploymentId), inArray(isrPages.key, gone)))
  }
}

/**
 * Stores pages, and makes room for them. A stored page that was begun later stays as it is. Safe to repeat, and in several
 * processes at once; stores nothing for a deleted deployment. Throws BadGateway (D22).
 */
export async function storePages(
  deps: StoreDeps,
  { deploymentId, pages, channel, self }: NewPages,
  limits = LIMITS,
): Promise<void> {
  await using scope = new AsyncDisposableStack()
  const received: Awaited<ReturnType<typeof receivePage>>[] = []
  // Sorted by key, so that two of these cannot deadlock.
  for (const page of pages.toSorted((a, b) => (a.key < b.key ? -1 : 1))) {
    const one = await receivePage(deps, page)
    scope.use(one.received)
    received.push(one)
  }
  try {
    const kept = await deps.db.transaction(async (tx) => {
      // Locks the row, so that counts and sizes are updated one at a time.
      const [totals = { pageBytes: 0, pages: 0 }] = await tx
        .insert(isrTotals)
        .values({ deploymentId })
        .onConflictDoUpdate({ target: isrTotals.deploymentId, set: { pages: isrTotals.pages } })
        .returning()
      const rows = JSON.stringify(received.map(({ page: { key, begunAt } }) => ({ key, begun_at: begunAt })))
      const before = await tx.execute<{ key: string; bytes: string; is_gone: boolean }>(sql`
        with asked as (
          select decode(r.key, 'hex') as key, r.begun_at from json_to_recordset(${rows}::json) as r(key text, begun_at timestamptz)
        ), gone as (
          delete from ${isrPages} p using asked
          where p.deployment_id = ${deploymentId} and p.key = asked.key and p.begun_at <= asked.begun_at returning p.key, p.bytes
        )
        select encode(p.key, 'hex') as key, p.bytes, p.key in (select key from gone) as is_gone
        from ${isrPages} p join asked on asked.key = p.key where p.deployment_id = ${deploymentId}`)
      const gone = before.filter((row) => row.is_gone)
      const later = new Set(before.flatMap((row) => (row.is_gone ? [] : [row.key])))
      const stored = received.filter(({ page }) => !later.has(page.key))
      const time = deps.now()
      await activateBlobs(
        tx,
        time,
        stored.map(({ blob }) => blob),
      )
      if (stored.length > 0)
        await tx.insert(isrPages).values(
          stored.map(({ page, blob }) => ({
            deploymentId,
            key: Buffer.from(page.key, 'hex'),
            path: page.path,
            status: page.status,
            headers: page.headers,
            tags: [...page.tags],
            blobId: blob.id,
            bytes: page.body.length,
            begunAt: page.begunAt,
            freshUntil: page.freshUntil,
            staleUntil: page.staleUntil,
          })),
        )
      const sums = {
        pageBytes:
          totals.pageBytes +
          stored.reduce((sum, { page }) => sum + page.body.length, 0) -
          gone.reduce((sum, { bytes }) => sum + Number(bytes), 0),
        pages: totals.pages + stored.length - gone.length,
      }
      await makeRoom(tx, deploymentId, sums, limits)
      await tx.update(isrTotals).set(sums).where(eq(isrTotals.deploymentId, deploymentId))
      for (let n = 0; n < stored.length; n += NAMED_AT_ONCE) {
        const named = stored.slice(n, n + NAMED_AT_ONCE).map(({ page }) => page.key)
        await tx.execute(sql`select pg_notify(${channel}, ${[deploymentId, self, ...named].join(' ')})`)
      }
      return stored
    })
    for (const { received: blobs } of kept) blobs.keep()
  } catch (error) {
    if (!isForeignKeyViolation(error)) throw error
  }
}
