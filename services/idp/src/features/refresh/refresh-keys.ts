import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { REFRESH_KEYS_LOCK } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import type { Sealer } from '@platform/runtime/seal'
import { openRotatingKeys, RELOAD_MS, type RotatingKeys } from '@platform/service/rotating-keys'
import { asc } from 'drizzle-orm'
import { refreshKeys } from './table.ts'

/** A refresh token lives 30 days (B §2); its key outlives it. */
const KEPT_MS = 31 * 86_400_000

/** The keys that authenticate refresh tokens; they rotate on the same days as signing keys, with an overlap of 31 days. */
export interface RefreshKeys extends Pick<RotatingKeys<unknown>, 'maintain' | 'rotateNow' | 'reencrypt' | 'close'> {
  /** The key for new tokens. MACs are base64url, 43 characters. */
  current(): { id: string; mac(text: string): string }
  /** The MAC under the named key; undefined if the key is unknown or retired. */
  mac(id: string, text: string): string | undefined
}

interface RefreshKeysOptions {
  db: Db
  sealer: Sealer
  now: () => Date
  logger: Logger
  notifications: Notifications
}

const macBy = (secret: KeyObject, text: string): string => createHmac('sha256', secret).update(text).digest('base64url')

/** Opens the keys of refresh tokens; creates the first if there is none. `rotateNow` invalidates all refresh tokens. */
export async function openRefreshKeys(options: RefreshKeysOptions): Promise<RefreshKeys> {
  const keys = await openRotatingKeys({
    ...options,
    name: 'refresh',
    lock: REFRESH_KEYS_LOCK,
    channel: 'refresh_keys',
    columns: refreshKeys,
    contextOf: (id) => `refresh-key:${id}`,
    overlapMs: KEPT_MS,
    // Only the processes of this service have to know a key.
    lateKeyWaitsMs: 2 * RELOAD_MS,
    read: (db) => db.select().from(refreshKeys).orderBy(asc(refreshKeys.activatesAt)),
    // A KeyObject: with raw bytes each MAC would cost five times as much (measured, 15 µs against 3).
    open: (_, secret) => createSecretKey(secret),
    async insert(tx, activatesAt, seal) {
      const id = randomBytes(6).toString('base64url')
      await tx.insert(refreshKeys).values({ id, ...seal(randomBytes(32), id), activatesAt })
      return id
    },
  })
  const { maintain, rotateNow, reencrypt, close } = keys
  return {
    current() {
      const { id, material } = keys.active()
      return { id, mac: (text) => macBy(material, text) }
    },
    mac(id, text) {
      const key = keys.live().find((entry) => entry.id === id)
      return key && macBy(key.material, text)
    },
    maintain,
    rotateNow,
    reencrypt,
    close,
  }
}
