import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { and, desc, eq, lt, notInArray } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { openArtifactFinder, readArtifact } from '../artifacts/artifact-blobs.ts'
import { isCollected, storeFiles } from '../artifacts/store-files.ts'
import { buildCaches } from '../artifacts/table.ts'

/** Caches kept per environment: the current lockfile's and the previous one's. */
const KEPT = 2
const UNUSED_MS = 30 * 86_400_000
const STORE_TRIES = 3

type Place = { environmentId: string; key: string }

const isAt = ({ environmentId, key }: Place) =>
  and(eq(buildCaches.environmentId, environmentId), eq(buildCaches.key, key))

/**
 * Writes the cache of an earlier build of the environment to a file. Returns its length in bytes, or undefined if there is none.
 */
export async function fetchBuildCache(
  deps: Pick<DeployDeps, 'db' | 'now' | 'blobs'>,
  place: Place,
  file: string,
): Promise<number | undefined> {
  const [row] = await deps.db
    .update(buildCaches)
    .set({ usedAt: deps.now() })
    .where(isAt(place))
    .returning({ sha256: buildCaches.sha256, bytes: buildCaches.bytes })
  if (!row) return undefined
  const artifact = await openArtifactFinder(deps.db)(row.sha256.toString('hex'))
  if (!artifact) return undefined
  await pipeline(readArtifact(deps, artifact.identity), createWriteStream(file, { flags: 'wx', mode: 0o644 }))
  return row.bytes
}

/** Stores a file as the environment's build cache, replacing the previous one. Returns its length in bytes. */
export async function storeBuildCache(
  deps: Pick<DeployDeps, 'db' | 'now' | 'blobs' | 'logger'>,
  { environmentId, key }: Place,
  file: string,
  signal: AbortSignal,
): Promise<number> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  const content = { sha256: hash.digest(), bytes: (await stat(file)).size, source: file }
  for (let tries = 1; ; tries++) {
    await storeFiles(deps, [content], signal)
    const set = { sha256: content.sha256, bytes: content.bytes, usedAt: deps.now() }
    try {
      await deps.db
        .insert(buildCaches)
        .values({ environmentId, key, ...set })
        .onConflictDoUpdate({ target: [buildCaches.environmentId, buildCaches.key], set })
      break
    } catch (error) {
      // The artifact may have been collected between the two statements.
      if (!isCollected(error) || tries === STORE_TRIES) throw error
    }
  }
  const newest = deps.db
    .select({ key: buildCaches.key })
    .from(buildCaches)
    .where(eq(buildCaches.environmentId, environmentId))
    .orderBy(desc(buildCaches.usedAt))
    .limit(KEPT)
  await deps.db
    .delete(buildCaches)
    .where(and(eq(buildCaches.environmentId, environmentId), notInArray(buildCaches.key, newest)))
  return content.bytes
}

/** Removes caches that no build has used for 30 days. Safe to repeat. */
export async function discardBuildCaches({ db, now }: Pick<DeployDeps, 'db' | 'now'>): Promise<void> {
  await db.delete(buildCaches).where(lt(buildCaches.usedAt, new Date(now().getTime() - UNUSED_MS)))
}
