import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { rotationBoundaries } from '@platform/auth/key-set'
import { REFRESH_KEYS_LOCK } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import type { Sealer } from '@platform/runtime/seal'
import { and, asc, eq, gt, isNull, ne, or, sql } from 'drizzle-orm'
import { refreshKeys } from './table.ts'

const DAY_MS = 86_400_000
/** Every process has read a key long before it is used. */
const MADE_AHEAD_MS = 14 * DAY_MS
/** A refresh token lives 30 days (B §2); its key outlives it. */
const KEPT_MS = 31 * DAY_MS
const RELOAD_MS = 60_000
/** Where a rotation that takes effect at once is announced to the other processes. */
const CHANNEL = 'refresh_keys'

interface LoadedKey {
  id: string
  /** A KeyObject: from the bytes each MAC would cost five times as much (measured, 15 µs against 3). */
  secret: KeyObject
  activatesAt: number
  retiresAt: number
}

/** The keys that authenticate refresh tokens; they rotate on the days that signing keys do, with an overlap of 31 days. */
export interface RefreshKeys {
  /** The key that makes tokens now. MACs are base64url, 43 characters. */
  current(): { id: string; mac(text: string): string }
  /** The MAC that the named key would give; undefined for a key that is unknown or retired. */
  mac(id: string, text: string): string | undefined
  maintain(): Promise<void>
  /**
   * A new key at once, and every other dead: all refresh tokens end. For a key that leaked. Returns its id.
   * record: runs in the same transaction, for the audit.
   */
  rotateNow(record: (tx: Pick<Db, 'insert'>, id: string) => Promise<void>): Promise<string>
  /** Seals every key anew that is not under the current master key. Returns how many. */
  reencrypt(): Promise<number>
  close(): void
}

interface RefreshKeysOptions {
  db: Db
  sealer: Sealer
  now: () => Date
  logger: Logger
  notifications: Notifications
}

const contextOf = (id: string): string => `refresh-key:${id}`

/** Opens the keys of refresh tokens; makes the first where there is none. Reads what other processes made every 60 s. */
export async function openRefreshKeys({
  db,
  sealer,
  now,
  logger,
  notifications,
}: RefreshKeysOptions): Promise<RefreshKeys> {
  let keys: LoadedKey[] = []
  /** The last reading of the keys. One at a time: an older answer must never come after a newer one. */
  let loading: Promise<void> = Promise.resolve()

  const load = (): Promise<void> => (loading = loading.then(readKeys, readKeys))

  async function readKeys(): Promise<void> {
    const rows = await db.select().from(refreshKeys).orderBy(asc(refreshKeys.activatesAt))
    const known = new Map(keys.map((key) => [key.id, key.secret]))
    keys = rows.map((row) => ({
      id: row.id,
      secret: known.get(row.id) ?? createSecretKey(sealer.open(row, contextOf(row.id))),
      activatesAt: row.activatesAt.getTime(),
      retiresAt: row.retiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
    }))
  }

  /** When the key that is due becomes active; undefined when none is due. */
  function dueActivation(newest: Date | undefined): Date | undefined {
    const at = now()
    const { last, next } = rotationBoundaries(at)
    if (!newest) return at
    if (newest < last) return new Date(at.getTime() + 2 * RELOAD_MS)
    if (newest < next && at.getTime() >= next.getTime() - MADE_AHEAD_MS) return next
    return undefined
  }

  async function insertKey(
    tx: Pick<Db, 'insert' | 'update'>,
    activatesAt: Date,
    othersRetireAt: Date,
  ): Promise<string> {
    const id = randomBytes(6).toString('base64url')
    await tx.insert(refreshKeys).values({ id, ...sealer.seal(randomBytes(32), contextOf(id)), activatesAt })
    await tx
      .update(refreshKeys)
      .set({ retiresAt: othersRetireAt })
      .where(and(ne(refreshKeys.id, id), or(isNull(refreshKeys.retiresAt), gt(refreshKeys.retiresAt, othersRetireAt))))
    return id
  }

  async function maintain(): Promise<void> {
    await load()
    const newest = keys.at(-1)
    if (!dueActivation(newest && new Date(newest.activatesAt))) return
    await db.transaction(async (tx) => {
      await tx.execute(sql`select pg_advisory_xact_lock(${REFRESH_KEYS_LOCK})`)
      const [last] = await tx.select({ at: sql<string | null>`max(${refreshKeys.activatesAt})` }).from(refreshKeys)
      const activatesAt = dueActivation(last?.at ? new Date(last.at) : undefined)
      if (!activatesAt) return // another process was first
      const id = await insertKey(tx, activatesAt, new Date(activatesAt.getTime() + KEPT_MS))
      logger.info({ id, activatesAt }, 'refresh key made')
    })
    await load()
  }

  const macBy = (key: LoadedKey, text: string): string =>
    createHmac('sha256', key.secret).update(text).digest('base64url')

  const goOnWithKnown = (error: unknown) =>
    logger.warn({ err: error }, 'refresh keys could not be read; the known ones go on')

  await maintain()
  const timer = setInterval(() => void maintain().catch(goOnWithKnown), RELOAD_MS).unref()
  const reload = () => void load().catch(goOnWithKnown)
  notifications.listen(CHANNEL, { onMessage: reload, onListening: reload })

  return {
    current() {
      const at = now().getTime()
      const key = keys.findLast(({ activatesAt }) => activatesAt <= at)
      if (!key) throw new Error('No refresh key is active')
      return { id: key.id, mac: (text) => macBy(key, text) }
    },
    mac(id, text) {
      const at = now().getTime()
      const key = keys.find((entry) => entry.id === id && entry.retiresAt > at)
      return key && macBy(key, text)
    },
    maintain,
    async rotateNow(record) {
      const id = await db.transaction(async (tx) => {
        await tx.execute(sql`select pg_advisory_xact_lock(${REFRESH_KEYS_LOCK})`)
        const made = await insertKey(tx, now(), now())
        await record(tx, made)
        await tx.execute(sql`select pg_notify(${CHANNEL}, '')`)
        return made
      })
      await load()
      return id
    },
    async reencrypt() {
      const rows = await db.select().from(refreshKeys).where(ne(refreshKeys.kekId, sealer.kekId))
      for (const row of rows) {
        const context = contextOf(row.id)
        await db
          .update(refreshKeys)
          .set(sealer.seal(sealer.open(row, context), context))
          .where(eq(refreshKeys.id, row.id))
      }
      return rows.length
    },
    close: () => clearInterval(timer),
  }
}
