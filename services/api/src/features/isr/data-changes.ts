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
/** Beyond these a slot is told to forget everything. */
const KEYS_MAX = 10_000
/** How old what is known may be while nothing is heard of changes. */
const ASK_AGAIN_MS = 1_000
/** Clocks drift apart by less than a millisecond in that time. */
const CLOCK_MS = 60_000

/** What became of a deployment's data since a cursor. Moments are milliseconds since 1970 by the clock of the database. */
export interface DataChanges {
  /** The time of the answer, or a few milliseconds before it; never after. */
  now: number
  cursor: string
  /** Nothing is known of that cursor: `tags` are all there are, and any value may have changed. */
  isWhole: boolean
  /** Each with the moment until which what has it is stale, and the one from which that must not be shown; null: it may. */
  tags: [tag: string, staleAt: number, expiredAt: number | null][]
  /** Of values that were stored, each with who stored it last. */
  keys: [key: string, writer: string][]
}

/** What slots of this edge have to know of their deployment's data before they use what they keep themselves. */
export interface DataLog {
  /** cursor: of an earlier answer. Throws what the database throws. */
  since(deploymentId: string, cursor: string | undefined): Promise<DataChanges>
  /** How many tags of a list would be new, and how many there are. */
  count(deploymentId: string, tags: readonly string[]): Promise<{ fresh: number; known: number }>
  /** What to send where a value is stored. */
  announce(deploymentId: string, key: string, writer: string): { channel: string; message: string }
  /** Notes a value that this process stored. */
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
  /** Tags that were revalidated since they were read. */
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
  /** What to add to performance.now() for a moment that is not later than the database's. */
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
  /** A moment that the database has written is over. */
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
    known.version += 1
    for (const { tag, staleAt, expiredAt } of rows) {
      if (!known.tags.has(tag)) known.bytes += tag.length + BYTES_OF_TAG
      known.tags.set(tag, {
        staleAt: staleAt.getTime(),
        expiredAt: expiredAt?.getTime() ?? null,
        version: known.version,
      })
      learnTime(staleAt.getTime())
    }
    known.isLoaded = true
    // It may have grown.
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
    // The first may have begun before this was asked; the second has not.
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
