import type { HeaderPairs } from '@platform/build-output/router'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { Blobs } from '../../storage/objects/blobs.ts'
import { blobs } from '../../storage/objects/table.ts'
import type { Fallback, Found, IsrPages, KeptPage, NewPage } from './pages.ts'
import { storePages } from './store-pages.ts'
import { openStoreQueue, type StoreQueue } from './store-queue.ts'
import { isrClaims, isrPages, isrTags } from './table.ts'
import type { IsrTags } from './tags.ts'

/** Payload: the id of a deployment, the sender, and the keys of new pages, in hex. */
const CHANNEL = 'isr_pages'
const BYTES_MAX = 134_217_728
/** Longer pages are read from the store each time. */
const KEPT_BYTES_MAX = 2_097_152
const BYTES_OF_ENTRY = 1_000
/** Maximum age of cached entries while changes cannot be heard. */
const ASK_AGAIN_MS = 1_000
/** How long a claim to regenerate a page lasts before another caller may try. */
const CLAIM_MS = 120_000
/** Pause after a page could not be regenerated. */
const AFTER_FAILURE_MS = 10_000

interface Options {
  db: Db
  now: () => Date
  blobs: Blobs
  logger: Logger
  notifications: Notifications
  tags: IsrTags
}

interface Row extends Record<string, unknown> {
  status: number | null
  headers: HeaderPairs
  blob_id: string
  bytes: string
  content: Buffer | null
  begun_at: Date
  fresh_until: Date | null
  stale_until: Date | null
  tags: string[] | null
  is_stale: boolean
  expires_in_ms: number | null
}

interface Known {
  found: Found
  /** Bytes that the entry takes in memory, beside its compressed copies. */
  bytes: number
  copiesBytes: number
  tags: readonly string[]
  /** By performance.now(), before the look-up. */
  askedAt: number
}

interface LookUp {
  answer: Promise<Found | undefined>
  deploymentId: string
  isOutdated: boolean
}

const timeOf = (time: Date | null): number => (time === null ? Infinity : new Date(time).getTime())

export function openIsrPages({ db, now, blobs: store, logger, notifications, tags }: Options): IsrPages {
  const self = newId()
  const keysOf = new Map<string, Set<string>>()
  const known = new LRUCache<string, Known>({
    maxSize: BYTES_MAX,
    sizeCalculation: ({ bytes, copiesBytes }) => bytes + copiesBytes + BYTES_OF_ENTRY,
    dispose(_, name) {
      const deploymentId = name.slice(0, 36)
      const keys = keysOf.get(deploymentId)
      if (keys?.delete(name) && keys.size === 0) keysOf.delete(deploymentId)
    },
  })
  const lookUps = new Map<string, LookUp>()
  const storing = new Map<string, StoreQueue>()
  let isListening = false
  const isHearing = (): boolean => isListening && tags.isListening

  function keep(deploymentId: string, name: string, entry: Known): void {
    known.set(name, entry)
    const keys = keysOf.get(deploymentId)
    if (keys) keys.add(name)
    else keysOf.set(deploymentId, new Set([name]))
  }

  function forget(name: string): void {
    known.delete(name)
    const lookUp = lookUps.get(name)
    if (lookUp) lookUp.isOutdated = true
    lookUps.delete(name)
  }

  function forgetAll(): void {
    known.clear()
    for (const lookUp of lookUps.values()) lookUp.isOutdated = true
    lookUps.clear()
  }

  tags.listen((deploymentId, revalidated) => {
    if (deploymentId === undefined) {
      forgetAll()
      return
    }
    const concerned = revalidated && new Set(revalidated)
    for (const name of keysOf.get(deploymentId) ?? [])
      if (!concerned || known.peek(name)?.tags.some((tag) => concerned.has(tag))) known.delete(name)
    for (const [name, lookUp] of lookUps) if (lookUp.deploymentId === deploymentId) forget(name)
  })
  notifications.listen(CHANNEL, {
    onMessage(payload) {
      const [deploymentId = '', from, ...keys] = payload.split(' ')
      // This process already knows what it stored.
      if (from === self) return
      for (const key of keys) forget(deploymentId + key)
    },
    onListening() {
      isListening = true
      forgetAll()
    },
    onLost() {
      isListening = false
    },
  })

  /** Every revalidation in a deployment happened after its build. */
  async function read(deploymentId: string, key: string, fallback: Fallback | undefined): Promise<Row | undefined> {
    const fallbackTags = JSON.stringify(fallback?.tags ?? [])
    const [row] = await db.execute<Row>(sql`
      select p.status, p.headers, p.blob_id, p.bytes, b.content, p.begun_at, p.fresh_until, p.stale_until, to_json(p.tags) as tags, t.is_stale, t.expires_in_ms
      from (select) one
      left join ${isrPages} p on p.deployment_id = ${deploymentId} and p.key = decode(${key}, 'hex')
      left join ${blobs} b on b.id = p.blob_id
      left join lateral (
        select count(*) > 0 as is_stale, min(extract(epoch from r.expired_at - clock_timestamp()) * 1000)
            filter (where r.expired_at >= coalesce(p.begun_at, '-infinity'))::float8 as expires_in_ms
        from ${isrTags} r
        where r.deployment_id = ${deploymentId} and r.stale_at >= coalesce(p.begun_at, '-infinity')
          and r.tag = any(coalesce(p.tags, array(select json_array_elements_text(${fallbackTags}::json))))
      ) t on true`)
    return row
  }

  async function pageOf({
    status,
    headers,
    blob_id: blobId,
    bytes,
    content,
    begun_at: begunAt,
  }: Row): Promise<KeptPage | undefined> {
    if (status === null) return undefined
    const length = Number(bytes)
    let body: Buffer | undefined
    if (content) body = content
    else if (length <= KEPT_BYTES_MAX)
      body = Buffer.concat(await Array.fromAsync(store.read(blobId, { start: 0, end: length - 1 }, 'owned')))
    return { status, headers, bytes: length, blobId, body, begunAt: new Date(begunAt).getTime() }
  }

  async function ask(
    lookUp: Pick<LookUp, 'isOutdated'>,
    deploymentId: string,
    key: string,
    fallback: Fallback | undefined,
  ): Promise<Found | undefined> {
    const askedAt = performance.now()
    const row = await read(deploymentId, key, fallback)
    const page = row && (await pageOf(row))
    if (!row || (!page && !fallback)) return undefined
    const nowMs = now().getTime()
    const lifetime = page
      ? { freshUntil: timeOf(row.fresh_until), staleUntil: timeOf(row.stale_until) }
      : { freshUntil: fallback?.freshUntil ?? 0, staleUntil: fallback?.staleUntil ?? 0 }
    if (row.is_stale) {
      lifetime.freshUntil = 0
      lifetime.staleUntil = Math.min(lifetime.staleUntil, nowMs + (row.expires_in_ms ?? Infinity))
    }
    const entry: Found = { ...lifetime, page }
    const tagged = row.tags ?? fallback?.tags ?? []
    const size = page ? (page.body?.length ?? 0) : (fallback?.bytes ?? 0)
    if (!lookUp.isOutdated)
      keep(deploymentId, deploymentId + key, { found: entry, bytes: size, copiesBytes: 0, tags: tagged, askedAt })
    return entry
  }

  function lookUpOf(deploymentId: string, key: string, fallback: Fallback | undefined): Promise<Found | undefined> {
    const name = deploymentId + key
    const before = lookUps.get(name)
    if (before) return before.answer
    const begun = { deploymentId, isOutdated: false }
    const lookUp: LookUp = Object.assign(begun, { answer: ask(begun, deploymentId, key, fallback) })
    lookUps.set(name, lookUp)
    const over = () => {
      if (lookUps.get(name) === lookUp) lookUps.delete(name)
    }
    lookUp.answer.then(over, over)
    return lookUp.answer
  }

  function peek(deploymentId: string, key: string): Found | undefined {
    const entry = known.get(deploymentId + key)
    if (!entry) return undefined
    return isHearing() || performance.now() - entry.askedAt < ASK_AGAIN_MS ? entry.found : undefined
  }

  async function storeAll(deploymentId: string, pages: readonly NewPage[]): Promise<void> {
    await storePages({ db, now, blobs: store, logger }, { deploymentId, pages, channel: CHANNEL, self })
    for (const { key } of pages) forget(deploymentId + key)
  }

  return {
    peek,
    async find(deploymentId, key, fallback) {
      const readyEntry = peek(deploymentId, key)
      if (readyEntry) return readyEntry
      try {
        return await lookUpOf(deploymentId, key, fallback)
      } catch (error) {
        // Known pages are served even while the database is down.
        const entry = known.get(deploymentId + key)
        if (!entry) throw error
        entry.askedAt = performance.now()
        return entry.found
      }
    },
    countCopies(deploymentId, key, found, copiesBytes) {
      const name = deploymentId + key
      const entry = known.peek(name)
      // A new object: the cache counts a value that it has already only once.
      if (entry?.found === found) keep(deploymentId, name, { ...entry, copiesBytes })
    },
    async store(deploymentId, pages) {
      let queue = storing.get(deploymentId)
      if (!queue) storing.set(deploymentId, (queue = openStoreQueue((all) => storeAll(deploymentId, all))))
      try {
        await queue.add(pages)
      } finally {
        if (queue.isIdle()) storing.delete(deploymentId)
      }
    },
    async begin() {
      const [row] = await db.execute<{ at: Date }>(sql`select clock_timestamp() as at`)
      return new Date(row?.at ?? now())
    },
    async claim(deploymentId, groupKey, { key, begunAt }) {
      const bytes = sql`decode(${groupKey}, 'hex')`
      const until = (ms: number) => sql`clock_timestamp() + ${`${ms} milliseconds`}::interval`
      const [row] = await db.execute<{ at: Date }>(sql`
        insert into ${isrClaims} as c (deployment_id, key, until) select ${deploymentId}::uuid, ${bytes}, ${until(CLAIM_MS)}
        where not exists (
          select from ${isrPages} p where p.deployment_id = ${deploymentId} and p.key = decode(${key}, 'hex')
            and p.begun_at > coalesce(${begunAt === undefined ? null : new Date(begunAt).toISOString()}::timestamptz, '-infinity'))
        on conflict (deployment_id, key) do update set until = excluded.until where c.until < clock_timestamp()
        returning clock_timestamp() as at`)
      if (!row) return undefined
      const mine = sql`deployment_id = ${deploymentId} and key = ${bytes}`
      return {
        begunAt: new Date(row.at),
        async end(outcome) {
          await (outcome === 'made'
            ? db.execute(sql`delete from ${isrClaims} where ${mine}`)
            : db.execute(sql`update ${isrClaims} set until = ${until(AFTER_FAILURE_MS)} where ${mine}`))
        },
      }
    },
  }
}
