import { createHash } from 'node:crypto'
import { and, count, desc, eq, inArray, max, sql, sum } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import type { Deployment } from '../../deploy/deployments/reach.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { PURGES_CHANNEL } from './epochs.ts'
import type { ImageSource } from './image-request.ts'
import { minimumSecondsOf } from './max-age.ts'
import { imageCaches, imagePurges, imageVariants } from './table.ts'

/** Sources in a list, largest first (D88). */
const ENTRIES_MAX = 1_000
const TAG_LENGTH = 22

interface ImageCache {
  enabled: boolean
  deploymentTag: string
  sourceTag: string | null
  policy: { organizationBytesMax: number; minimumCacheSeconds: number; eviction: 'least-recently-used' }
  totalBytes: number
  entries: { source: string; variants: number; bytes: number; lastUsedAt: Date }[]
}

const deploymentTagOf = (deploymentId: string): string => `images:${deploymentId}`
const sourceTagOf = (deploymentId: string, source: string): string =>
  `${deploymentTagOf(deploymentId)}:${createHash('sha256').update(source).digest('base64url').slice(0, TAG_LENGTH)}`

/**
 * Names that rows may have for a source: a path with a query goes by the path alone if a file answers there, which ignores the
 * query.
 */
const namesOf = (source: ImageSource): string[] =>
  source.kind === 'local' ? [...new Set([source.name, source.path])] : [source.name]

/** The stored images of a deployment, or of one of its sources. */
export async function inspectImageCache(
  deps: Pick<EdgeDeps, 'db'>,
  { id, organizationId, status, retiredAt }: Deployment,
  source: ImageSource | undefined,
): Promise<ImageCache> {
  const { db } = deps
  const isMeant = and(
    eq(imageVariants.deploymentId, id),
    source === undefined ? undefined : inArray(imageVariants.source, namesOf(source)),
  )
  const bytes = sum(imageVariants.bytes).mapWith(Number)
  const [entries, [total], [row], organizationBytesMax] = await Promise.all([
    db
      .select({
        source: imageVariants.source,
        variants: count(),
        bytes,
        lastUsedAt: sql<Date>`${max(imageVariants.lastUsedAt)}`.mapWith(imageVariants.lastUsedAt),
      })
      .from(imageVariants)
      .where(isMeant)
      .groupBy(imageVariants.source)
      .orderBy(desc(bytes), imageVariants.source)
      .limit(ENTRIES_MAX),
    db.select({ bytes }).from(imageVariants).where(isMeant),
    db.select({ output: deployments.output }).from(deployments).where(eq(deployments.id, id)),
    quotaOf(deps, organizationId, 'image_cache_bytes'),
  ])
  return {
    enabled: status === 'ACTIVE' && retiredAt === null,
    deploymentTag: deploymentTagOf(id),
    sourceTag: source === undefined ? null : sourceTagOf(id, source.name),
    policy: {
      organizationBytesMax,
      minimumCacheSeconds: minimumSecondsOf(row?.output?.images),
      eviction: 'least-recently-used',
    },
    totalBytes: total?.bytes ?? 0,
    entries,
  }
}

/**
 * Removes the images of a deployment, or of one of its sources. Increments the epoch in the same transaction, so images being
 * generated right now are not stored. Edges are notified when it commits. Safe to repeat.
 */
export async function purgeImageCache(
  { db, now, images }: Pick<EdgeDeps, 'db' | 'now' | 'images'>,
  { id: deploymentId }: Pick<Deployment, 'id'>,
  source: ImageSource | undefined,
): Promise<{ purged: true; tag: string }> {
  await db.transaction(async (tx) => {
    // Locks the row even if only a source's epoch is incremented: storing a variant locks it, too.
    const raise = source === undefined ? 1 : 0
    await tx
      .insert(imageCaches)
      .values({ deploymentId, epoch: raise })
      .onConflictDoUpdate({
        target: imageCaches.deploymentId,
        set: { epoch: sql`${imageCaches.epoch} + ${raise}` },
      })
    const ofDeployment = eq(imageVariants.deploymentId, deploymentId)
    if (source === undefined) await tx.delete(imageVariants).where(ofDeployment)
    else {
      const purgedAt = now()
      const names = namesOf(source)
      await tx
        .insert(imagePurges)
        .values(names.map((name) => ({ deploymentId, source: name, epoch: 1, purgedAt })))
        .onConflictDoUpdate({
          target: [imagePurges.deploymentId, imagePurges.source],
          set: { epoch: sql`${imagePurges.epoch} + 1`, purgedAt },
        })
      await tx.delete(imageVariants).where(and(ofDeployment, inArray(imageVariants.source, names)))
    }
    await tx.execute(sql`select pg_notify(${PURGES_CHANNEL}, ${deploymentId})`)
  })
  images.forget(deploymentId)
  return {
    purged: true,
    tag: source === undefined ? deploymentTagOf(deploymentId) : sourceTagOf(deploymentId, source.name),
  }
}
