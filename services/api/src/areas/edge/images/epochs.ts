import type { Db } from '@platform/runtime/database'
import { withDeadline } from '@platform/runtime/deadline'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Notifications } from '@platform/runtime/notifications'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { imageCaches, imagePurges } from './table.ts'

/** Purges announce the id of their deployment here. */
export const PURGES_CHANNEL = 'image_purges'
const KNOWN_MAX = 10_000
/** Maximum age of an epoch while purges cannot be heard. */
const ASK_AGAIN_MS = 5_000
/** How long a request waits for a fresher epoch before it uses the known one. */
const PATIENCE_MS = 1_000

/** How often a deployment, and one source of it, was purged. */
export interface Epoch {
  deployment: number
  source: number
}

/** The current epochs of images. */
export interface ImageEpochs {
  /** Throws the database's error if no epoch is known. */
  find(deploymentId: string, source: string): Promise<Epoch>
  /** Forgets a deployment's epochs, as its notification would a little later. */
  forget(deploymentId: string): void
}

const findEpoch = lazyPrepared((db) =>
  db
    .select({ deployment: imageCaches.epoch, source: imagePurges.epoch })
    .from(imageCaches)
    .leftJoin(
      imagePurges,
      and(eq(imagePurges.deploymentId, imageCaches.deploymentId), eq(imagePurges.source, sql.placeholder('source'))),
    )
    .where(eq(imageCaches.deploymentId, sql.placeholder('deploymentId')))
    .prepare('image_epoch'),
)

/** Reads the current epoch from the database. */
export async function readEpoch(db: Db, deploymentId: string, source: string): Promise<Epoch> {
  const [row] = await findEpoch(db).execute({ deploymentId, source })
  return { deployment: row?.deployment ?? 0, source: row?.source ?? 0 }
}

interface Known {
  epoch: Epoch
  /** By `monotonicMs`, before the look-up. */
  askedAt: number
}

/**
 * Caches epochs, and forgets a deployment's when Postgres announces that it was purged. While the connection for notifications is
 * down, an epoch is valid for 5 s; if it cannot be renewed, it stays in use.
 *
 * onPurge: called with the purged deployment.
 */
export function openImageEpochs(
  {
    db,
    notifications,
    monotonicMs = () => performance.now(),
  }: {
    db: Db
    notifications: Notifications
    /** The clock for the age of epochs; it never goes back. */
    monotonicMs?: () => number
  },
  onPurge: (deploymentId: string) => void,
): ImageEpochs {
  const known = new LRUCache<string, Known>({ ...entriesMax(KNOWN_MAX) })
  /** Look-ups that further requests may share: none from before a purge, whose results are not cached either. */
  const current = new Map<string, Promise<Epoch>>()
  let isListening = false

  const keyOf = (deploymentId: string, source: string): string => `${deploymentId}${source}`

  function ask(deploymentId: string, source: string): Promise<Epoch> {
    const key = keyOf(deploymentId, source)
    const before = current.get(key)
    if (before) return before
    const askedAt = monotonicMs()
    const asking = readEpoch(db, deploymentId, source)
    current.set(key, asking)
    const over = (epoch?: Epoch) => {
      if (current.get(key) !== asking) return
      current.delete(key)
      if (epoch) known.set(key, { epoch, askedAt })
    }
    asking.then(over, () => over())
    return asking
  }

  /** Returns the known epoch unless a newer one arrives soon; then looks up no more for a while. */
  async function renew(deploymentId: string, source: string, entry: Known): Promise<Epoch> {
    try {
      return await withDeadline(PATIENCE_MS, () => new Error('The epoch comes late'), ask(deploymentId, source))
    } catch {
      entry.askedAt = monotonicMs()
      return entry.epoch
    }
  }

  function forget(deploymentId: string): void {
    for (const keys of [known, current])
      for (const key of keys.keys()) if (key.startsWith(deploymentId)) keys.delete(key)
    onPurge(deploymentId)
  }

  notifications.listen(PURGES_CHANNEL, {
    onMessage: forget,
    onListening() {
      isListening = true
      known.clear()
      current.clear()
    },
    onLost() {
      isListening = false
    },
  })

  return {
    async find(deploymentId, source) {
      const entry = known.get(keyOf(deploymentId, source))
      if (!entry) return ask(deploymentId, source)
      if (isListening || monotonicMs() - entry.askedAt < ASK_AGAIN_MS) return entry.epoch
      return renew(deploymentId, source, entry)
    },
    forget,
  }
}
