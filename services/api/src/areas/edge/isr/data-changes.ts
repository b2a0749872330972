import { randomBytes } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { isrTags } from './table.ts'
import type { IsrTags } from './tags.ts'

/** Payload: the id of a deployment, a key of its data, and who stored it. */
const CHANNEL = 'isr_data'
const BYTES_MAX = 134_217_728
const BYTES_OF_DEPLOYMENT = 1_000
const BYTES_OF_TAG = 150
/** With more changed keys than this, slots are told to forget everything. */
const KEYS_MAX = 10_000
/** Maximum age of cached data while changes cannot be heard. */
const ASK_AGAIN_MS = 1_000
/** Clocks drift apart by less than a millisecond within this time. */
const CLOCK_MS = 60_000

/** Changes to a deployment's data since a cursor. Times are milliseconds since 1970, by the database's clock. */
export interface DataChanges {
  /** The time of the answer, or a few milliseconds earlier; never later. */
  now: number
  cursor: string
  /** True if the cursor is unknown: `tags` lists all tags, and any value may have changed. */
  isWhole: boolean
  /** Data with the tag that was begun until staleAt is stale; from expiredAt on it must not be shown; null: it may be. */
  tags: [tag: string, staleAt: number, expiredAt: number | null][]
  /** Keys of stored values, each with its last writer. */
  keys: [key: string, writer: string][]
}

/** What this edge's slots must know of their deployment's data before they use their own caches. */
export interface DataLog {
  /** cursor: from an earlier answer. Throws the database's errors. */
  since(deploymentId: string, cursor: string | undefined): Promise<DataChanges>
  /** Counts how many of a list's tags would be new, and how many exist. */
  count(deploymentId: string, tags: readonly string[]): Promise<{ fresh: number; known: number }>
  /** The notification to send when a value is stored. */
  announce(deploymentId: string, key: string, writer: string): { channel: string; message: string }
  /** Records a value that this process stored. */
  note(deploymentId: string, key: string, writer: string): void
}

interface Tag {
  staleAt: number
  expiredAt: number | null
  version: number
}

class Known {
  readonly id = randomBytes(8).toString('hex')
  readonly tags = new Map<string, Tag>()
  readonly keys = new Map<string, { writer: string; version: number }>()
  version = 0
  bytes = BYTES_OF_DEPLOYMENT
  /** By performance.now(). */
  askedAt = 0
  isLoaded = false
  /** Tags revalidated since they were read. */
  outdated = new Set<string>()
  loading: Promise<void> | undefined

  get isCurrent(): boolean {
    return this.isLoaded && this.outdated.size === 0
  }
}

export function openDataLog({
  db,
  notifications,
  tags: revalidations,
}: {
  db: Db
  notifications: Notifications
  tags: IsrTags
}): DataLog {
  const deployments = new LRUCache<string, Known>({ maxSize: BYTES_MAX, sizeCalculation: ({ bytes }) => bytes })
  let isListening = false
  /** Offset to add to performance.now() for a time that is never ahead of the database's. */
  let clock: { offset: number; readAt: number } | undefined

  function note(deploymentId: string, key: string, writer: string): void {
    const known = deployments.peek(deploymentId)
    if (!known) return
    known.version += 1
    known.keys.set(key, { writer, version: known.version })
    if (known.keys.size > KEYS_MAX) deployments.delete(deploymentId)
  }

  revalidations.listen((deploymentId, revalidated) => {
    if (deploymentId === undefined) deployments.clear()
    else if (revalidated === undefined) deployments.delete(deploymentId)
    else for (const tag of revalidated) deployments.peek(deploymentId)?.outdated.add(tag)
  })
  notifications.listen(CHANNEL, {
    onMessage(payload) {
      const [deploymentId = '', key = '', writer = ''] = payload.split(' ')
      note(deploymentId, key, writer)
    },
    onListening() {
      isListening = true
      deployments.clear()
    },
    onLost() {
      isListening = false
    },
  })

  async function readClock(): Promise<number> {
    if (!clock || performance.now() - clock.readAt > CLOCK_MS) {
      const [row] = await db.execute<{ at: number }>(
        sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`,
      )
      const readAt = performance.now()
      clock = { offset: Number(row?.at) - readAt, readAt }
    }
    return Math.floor(clock.offset + performance.now())
  }
  /** Advances the clock past a time that the database has written. */
  function learnTime(written: number): void {
    if (clock) clock.offset = Math.max(clock.offset, written + 1 - performance.now())
  }

  async function load(deploymentId: string, known: Known): Promise<void> {
    const { isLoaded, outdated } = known
    known.outdated = new Set()
    known.askedAt = performance.now()
    const rows = await db
      .select({ tag: isrTags.tag, staleAt: isrTags.staleAt, expiredAt: isrTags.expiredAt })
      .from(isrTags)
      .where(and(eq(isrTags.deploymentId, deploymentId), isLoaded ? inArray(isrTags.tag, [...outdated]) : undefined))
    // A change of this process has often been read before its notification arrives, which must not tell of it again.
    const changed = rows
      .map(({ tag, ...at }) => ({ tag, staleAt: at.staleAt.getTime(), expiredAt: at.expiredAt?.getTime() ?? null }))
      .filter(({ tag, staleAt, expiredAt }) => {
        const before = known.tags.get(tag)
        return before?.staleAt !== staleAt || before.expiredAt !== expiredAt
      })
    if (!isLoaded || changed.length > 0) known.version += 1
    for (const { tag, staleAt, expiredAt } of changed) {
      if (!known.tags.has(tag)) known.bytes += tag.length + BYTES_OF_TAG
      known.tags.set(tag, { staleAt, expiredAt, version: known.version })
      learnTime(staleAt)
    }
    known.isLoaded = true
    // Set again, since its size may have grown.
    if (deployments.peek(deploymentId) === known) deployments.set(deploymentId, known)
  }

  async function current(deploymentId: string): Promise<Known> {
    let known = deployments.get(deploymentId)
    const isHeard = isListening && revalidations.isListening
    if (!known || (!isHeard && performance.now() - known.askedAt > ASK_AGAIN_MS)) {
      known = new Known()
      deployments.set(deploymentId, known)
    }
    const knownData = known
    // The first load may have begun before this call; a second one has not.
    for (let n = 0; n < 2 && !knownData.isCurrent; n++) {
      knownData.loading ??= load(deploymentId, knownData)
        .catch((error: unknown) => {
          if (deployments.peek(deploymentId) === knownData) deployments.delete(deploymentId)
          throw error
        })
        .finally(() => (knownData.loading = undefined))
      await knownData.loading
    }
    return knownData
  }

  return {
    async since(deploymentId, cursor) {
      await readClock()
      const known = await current(deploymentId)
      const now = await readClock()
      const [id, written] = (cursor ?? '').split('.')
      const isWhole = id !== known.id
      const version = isWhole ? 0 : Number(written)
      const changes: DataChanges = { now, cursor: `${known.id}.${known.version}`, isWhole, tags: [], keys: [] }
      if (version === known.version) return changes
      for (const [tag, { staleAt, expiredAt, version: since }] of known.tags)
        if (since > version) changes.tags.push([tag, staleAt, expiredAt])
      if (!isWhole)
        for (const [key, { writer, version: since }] of known.keys)
          if (since > version) changes.keys.push([key, writer])
      return changes
    },
    async count(deploymentId, tags) {
      const known = await current(deploymentId)
      return { fresh: tags.filter((tag) => !known.tags.has(tag)).length, known: known.tags.size }
    },
    announce: (deploymentId, key, writer) => ({ channel: CHANNEL, message: `${deploymentId} ${key} ${writer}` }),
    note,
  }
}
