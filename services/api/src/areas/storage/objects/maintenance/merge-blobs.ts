import { NotFound } from '@platform/errors/api-error'
import { and, asc, eq, exists, gt, isNotNull, notExists, sql } from 'drizzle-orm'
import type { StorageDeps } from '../../deps.ts'
import { activateBlobs } from '../activate-blobs.ts'
import { chunksOf, openObject } from '../read-object.ts'
import { discardBlobs, receiveBlobs } from '../receive-body.ts'
import { objectBlobs, objects } from '../table.ts'

/** An object of more pieces than this is merged if they average less than a mebibyte. */
const PIECES_MAX = 64
const MEAN_BYTES_MIN = 1_048_576
const MERGED_AT_ONCE = 100

type MergeDeps = Pick<StorageDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** Objects of many tiny pieces, from uploads in small steps. Excludes multipart uploads: clients may request a single part. */
const findScattered = ({ db }: Pick<StorageDeps, 'db'>) =>
  db
    .select({ id: objects.id, contentLength: objects.contentLength, blobCount: objects.blobCount })
    .from(objects)
    .where(
      and(
        gt(objects.blobCount, PIECES_MAX),
        sql`${objects.contentLength} < ${objects.blobCount}::bigint * ${MEAN_BYTES_MIN}`,
        notExists(
          db
            .select({ n: sql`1` })
            .from(objectBlobs)
            .where(and(eq(objectBlobs.objectId, objects.id), isNotNull(objectBlobs.part))),
        ),
      ),
    )
    .orderBy(asc(objects.id))
    .limit(MERGED_AT_ONCE)

async function mergeOne(
  deps: MergeDeps,
  object: { id: string; contentLength: number; blobCount: number },
): Promise<void> {
  const content = openObject(deps, object, null)
  const received = await receiveBlobs(
    deps,
    chunksOf(content),
    { length: object.contentLength, bytesMax: object.contentLength },
    () => {},
  ).catch((error: unknown) => {
    if (error instanceof NotFound) return undefined // purged since it was found
    throw error
  })
  if (!received) return
  const { blobs } = received
  const isDone = await deps.db.transaction(async (tx) => {
    // An object's pieces are only replaced here, so locking its row is enough.
    const [still] = await tx
      .select({ id: objects.id })
      .from(objects)
      .where(
        and(
          eq(objects.id, object.id),
          eq(objects.blobCount, object.blobCount),
          exists(
            tx
              .select({ n: sql`1` })
              .from(objectBlobs)
              .where(eq(objectBlobs.objectId, objects.id)),
          ),
        ),
      )
      .for('update')
    if (!still) return false
    await activateBlobs(tx, deps.now(), blobs)
    await tx.delete(objectBlobs).where(eq(objectBlobs.objectId, object.id))
    await tx
      .insert(objectBlobs)
      .values(blobs.map(({ id, length }, n) => ({ objectId: object.id, n, blobId: id, length })))
    await tx.update(objects).set({ blobCount: blobs.length }).where(eq(objects.id, object.id))
    return true
  })
  if (!isDone) await discardBlobs(deps, blobs) // purged meanwhile
}

/** Merges the pieces of scattered objects, so that reading one opens few blobs. Invisible to clients. Safe to repeat. */
export async function mergeBlobs(deps: MergeDeps): Promise<void> {
  for (const object of await findScattered(deps)) await mergeOne(deps, object)
}
