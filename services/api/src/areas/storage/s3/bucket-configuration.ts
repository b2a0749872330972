import type { Db } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { CorsRule } from '@platform/s3-protocol/wire/cors-rules'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, eq, isNull, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { StorageDeps } from '../deps.ts'
import type { Bucket } from '../objects/buckets.ts'
import { buckets } from '../objects/table.ts'
import { bucketConfigurations } from './table.ts'

/** How long a process may use rules that another process has replaced. */
const RULES_MAX_AGE_MS = 5_000
/** Memory for rules, counted as bytes of their JSON; a bucket has 64 KiB of XML at most. */
const RULES_BYTES_MAX = 8 * 1_024 ** 2
/** The size counted for a bucket without rules, as most are. */
const ENTRY_BYTES = 200

type Configuration = Pick<typeof bucketConfigurations.$inferSelect, 'cors' | 'tags'>

/** The configuration of a bucket. */
export async function findConfiguration(
  { db }: Pick<StorageDeps, 'db'>,
  { id }: Pick<Bucket, 'id'>,
): Promise<Configuration> {
  const [row] = await db
    .select({ cors: bucketConfigurations.cors, tags: bucketConfigurations.tags })
    .from(bucketConfigurations)
    .where(eq(bucketConfigurations.bucketId, id))
  return row ?? { cors: null, tags: null }
}

/**
 * Sets or clears one part of a bucket's configuration; the other stays. Safe to repeat.
 * Throws NoSuchBucket if the bucket was deleted meanwhile.
 */
export async function configureBucket(
  { db, now }: Pick<StorageDeps, 'db' | 'now'>,
  { id }: Pick<Bucket, 'id'>,
  change: Partial<Configuration>,
): Promise<void> {
  const values = { ...change, updatedAt: now() }
  await db.transaction(async (tx) => {
    const [bucket] = await tx
      .select({ id: buckets.id })
      .from(buckets)
      .where(and(eq(buckets.id, id), isNull(buckets.deletedAt)))
      .for('key share')
    if (!bucket) throw s3Failure('NoSuchBucket')
    await tx
      .insert(bucketConfigurations)
      .values({ bucketId: id, ...values })
      .onConflictDoUpdate({ target: bucketConfigurations.bucketId, set: values })
  })
  if ('cors' in change) corsRules(db).forget(id)
}

const rulesOfBucket = lazyPrepared((db) =>
  db
    .select({ cors: bucketConfigurations.cors })
    .from(bucketConfigurations)
    .where(eq(bucketConfigurations.bucketId, sql.placeholder('bucketId')))
    .prepare('s3_cors_rules'),
)

/** The CORS rules of buckets, cached in memory for a few seconds. */
const corsRules = lazyPrepared((db: Db) => {
  const known = new LRUCache<string, Promise<CorsRule[] | null>>({ maxSize: RULES_BYTES_MAX, ttl: RULES_MAX_AGE_MS })
  async function lookUp(bucketId: string): Promise<CorsRule[] | null> {
    const [row] = await rulesOfBucket(db).execute({ bucketId })
    return row?.cors ?? null
  }
  async function keep(bucketId: string, rules: Promise<CorsRule[] | null>): Promise<void> {
    const corsRules = await rules.catch(() => undefined)
    // The entry was dropped since the rules were replaced during the look-up.
    if (known.peek(bucketId) !== rules) return
    if (corsRules === undefined) known.delete(bucketId)
    else if (corsRules) known.set(bucketId, rules, { size: ENTRY_BYTES + JSON.stringify(corsRules).length })
  }
  return {
    find(bucketId: string): Promise<CorsRule[] | null> {
      const kept = known.get(bucketId)
      if (kept) return kept
      const rules = lookUp(bucketId)
      known.set(bucketId, rules, { size: ENTRY_BYTES })
      void keep(bucketId, rules)
      return rules
    },
    forget: (bucketId: string): void => void known.delete(bucketId),
  }
})

/** The CORS rules of a bucket, or null if it has none. Changes by another process are seen within 5 s. */
export const findCorsRules = (
  { db }: Pick<StorageDeps, 'db'>,
  { id }: Pick<Bucket, 'id'>,
): Promise<CorsRule[] | null> => corsRules(db).find(id)
