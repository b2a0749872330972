import { inBatch } from '@platform/runtime/discard-rows'
import { and, asc, eq, gt, inArray, lt, notExists, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { artifacts, buildCaches, deploymentFallbacks, deploymentFiles, functionFiles } from './table.ts'

/** How long stored content may wait to be linked to a deployment. */
const UNLINKED_MS = 3_600_000
const AT_ONCE = 1_000
const BATCHES_A_ROUND = 20

/**
 * Creates the job that removes the content of files that no deployment and no build uses. A round checks up to 20,000 artifacts;
 * the next continues after them. Storage's garbage collection frees the bytes later. Safe to repeat, and in several processes at
 * once.
 */
export function openArtifactCollector(): (deps: Pick<DeployDeps, 'db' | 'now'>) => Promise<void> {
  let after: Buffer = Buffer.alloc(0)
  return async ({ db, now }) => {
    for (let batch = 0; batch < BATCHES_A_ROUND; batch++) {
      const seen = await inBatch(db, async (tx) => {
        const isUnlinked = and(
          ...[deploymentFiles, deploymentFallbacks, functionFiles, buildCaches].map((table) =>
            notExists(
              tx
                .select({ n: sql`1` })
                .from(table)
                .where(eq(table.sha256, artifacts.sha256)),
            ),
          ),
        )
        const next = await tx
          .select({ sha256: artifacts.sha256 })
          .from(artifacts)
          .where(gt(artifacts.sha256, after))
          .orderBy(asc(artifacts.sha256))
          .limit(AT_ONCE)
        const hashes = next.map(({ sha256 }) => sha256)
        if (hashes.length === 0) return hashes
        const isOver = and(
          inArray(artifacts.sha256, hashes),
          lt(artifacts.createdAt, new Date(now().getTime() - UNLINKED_MS)),
          isUnlinked,
        )
        // Linking locks the artifact's row. Wait for that lock, then check again in a statement that sees the new links.
        const held = await tx
          .select({ sha256: artifacts.sha256 })
          .from(artifacts)
          .where(isOver)
          .orderBy(asc(artifacts.sha256))
          .for('update')
        if (held.length > 0)
          await tx.delete(artifacts).where(
            and(
              inArray(
                artifacts.sha256,
                held.map(({ sha256 }) => sha256),
              ),
              isUnlinked,
            ),
          )
        return hashes
      })
      if (seen === undefined) return // another process is cleaning up
      after = seen.length < AT_ONCE ? Buffer.alloc(0) : (seen.at(-1) ?? Buffer.alloc(0))
      if (seen.length < AT_ONCE) return
    }
  }
}
