import { isForeignKeyViolation } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, asc, eq, inArray, lt, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { activateBlobs } from '../../storage/objects/activate-blobs.ts'
import { receiveBlobs } from '../../storage/objects/receive-body.ts'
import { removeDeadBlobs } from '../../storage/objects/remove-blobs.ts'
import { blobs } from '../../storage/objects/table.ts'
import { type Epoch, readEpoch } from './epochs.ts'
import { imageCaches, imageTotals, imageVariants } from './table.ts'

/** How far behind `last_used_at` may be. */
const USED_MS = 3_600_000
/** When the quota is reached, usage is reduced to this share, so that not every image has to evict others. */
const KEPT_SHARE = 0.95
const EVICTED_AT_ONCE = 200

type VariantDeps = Pick<EdgeDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** A stored variant and where its bytes are. */
export interface StoredVariant {
  contentType: string
  bytes: number
  blobId: string
  /** The bytes of short variants, which are in the row. */
  content: Buffer | null
  lastUsedAt: Date
}

const variantByKey = lazyPrepared((db) =>
  db
    .select({
      contentType: imageVariants.contentType,
      bytes: imageVariants.bytes,
      blobId: imageVariants.blobId,
      content: blobs.content,
      lastUsedAt: imageVariants.lastUsedAt,
    })
    .from(imageVariants)
    .innerJoin(blobs, eq(blobs.id, imageVariants.blobId))
    .where(
      and(
        eq(imageVariants.deploymentId, sql.placeholder('deploymentId')),
        eq(imageVariants.key, sql.placeholder('key')),
      ),
    )
    .prepare('image_variant_by_key'),
)

/** Finds a variant, whichever process generated it. */
export async function findVariant(
  { db }: Pick<EdgeDeps, 'db'>,
  deploymentId: string,
  key: Buffer,
): Promise<StoredVariant | undefined> {
  const [row] = await variantByKey(db).execute({ deploymentId, key })
  return row
}

/** Marks a variant as used, at most once an hour. */
export async function touchVariant(
  { db, now }: Pick<EdgeDeps, 'db' | 'now'>,
  deploymentId: string,
  key: Buffer,
): Promise<void> {
  const time = now()
  await db
    .update(imageVariants)
    .set({ lastUsedAt: time })
    .where(
      and(
        eq(imageVariants.deploymentId, deploymentId),
        eq(imageVariants.key, key),
        lt(imageVariants.lastUsedAt, new Date(time.getTime() - USED_MS)),
      ),
    )
}

interface NewVariant {
  deploymentId: string
  organizationId: string
  key: Buffer
  source: string
  content: Buffer
  contentType: string
  /** The epoch when generation began. */
  epoch: Epoch
}

async function* once(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}

/**
 * Stores a variant and makes room for it in the organization's quota. Returns false, having stored nothing, if its source was
 * purged since generation began. Safe to repeat, and in several processes at once. Throws BadGateway (D22).
 */
export async function storeVariant(deps: VariantDeps, variant: NewVariant): Promise<boolean> {
  const { deploymentId, organizationId, key, source, content, contentType, epoch } = variant
  const { length: bytes } = content
  await using received = await receiveBlobs(deps, once(content), { length: bytes, bytesMax: bytes }, () => {})
  const [blob] = received.blobs
  if (!blob || received.blobs.length > 1) throw new Error(`An image of ${bytes} bytes did not become one blob`)
  const outcome = await deps.db
    .transaction(async (tx) => {
      await tx.insert(imageCaches).values({ deploymentId, epoch: 0 }).onConflictDoNothing()
      // A purge locks this row too: either it has ended and its epoch is visible below, or it begins later and deletes what we
      // insert here.
      const locked = tx.select().from(imageCaches).where(eq(imageCaches.deploymentId, deploymentId))
      await locked.for('no key update')
      const current = await readEpoch(tx, deploymentId, source)
      if (current.deployment !== epoch.deployment || current.source !== epoch.source) return 'purged'
      const ofKey = and(eq(imageVariants.deploymentId, deploymentId), eq(imageVariants.key, key))
      if ((await tx.$count(imageVariants, ofKey)) > 0) return 'there'
      const time = deps.now()
      await activateBlobs(tx, time, [blob])
      await tx
        .insert(imageVariants)
        .values({ deploymentId, key, organizationId, source, blobId: blob.id, bytes, contentType, lastUsedAt: time })
      return 'stored'
    })
    .catch((error: unknown) => {
      // The deployment was deleted, along with its organization.
      if (isForeignKeyViolation(error)) return 'purged'
      throw error
    })
  if (outcome === 'stored') {
    received.keep()
    await keepWithinQuota(deps, organizationId)
  }
  return outcome !== 'purged'
}

/**
 * Removes the least recently used variants of an organization while they exceed its quota. Their bytes are freed at once: nobody
 * else refers to them, and a concurrent reader generates the image again. Safe to repeat, and in several processes at once.
 */
export async function keepWithinQuota(deps: VariantDeps, organizationId: string): Promise<void> {
  const limit = await quotaOf(deps, organizationId, 'image_cache_bytes')
  for (;;) {
    const dead = await deps.db.transaction(async (tx) => {
      // Locked, so that two of these do not both free the same bytes.
      const totals = tx.select().from(imageTotals).where(eq(imageTotals.organizationId, organizationId))
      const [total] = await totals.for('no key update')
      if (!total || total.bytes <= limit) return []
      const oldest = await tx
        .select({ blobId: imageVariants.blobId, bytes: imageVariants.bytes })
        .from(imageVariants)
        .where(eq(imageVariants.organizationId, organizationId))
        .orderBy(asc(imageVariants.lastUsedAt))
        .limit(EVICTED_AT_ONCE)
        // A purge locks these rows first and then waits for the total, so waiting for them could deadlock.
        .for('update', { skipLocked: true })
      let excess = total.bytes - limit * KEPT_SHARE
      const evicted = []
      for (const each of oldest) {
        if (excess <= 0) break
        evicted.push(each)
        excess -= each.bytes
      }
      if (evicted.length === 0) return []
      const ids = evicted.map(({ blobId }) => blobId)
      await tx.delete(imageVariants).where(inArray(imageVariants.blobId, ids))
      await tx
        .update(blobs)
        .set({ state: 'dead', diedAt: deps.now() })
        .where(and(inArray(blobs.id, ids), eq(blobs.state, 'live')))
      return ids
    })
    if (dead.length === 0) return
    await removeDeadBlobs(deps, dead)
  }
}
