import { hash } from 'node:crypto'
import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { bareEtag } from '@platform/service/entity-tag'
import { and, asc, eq, gt, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { uploadBlobs, uploads } from '../../storage/objects/table.ts'
import { partUrlOf } from './part-url.ts'
import { type Deployment, lockDeployment } from './reach.ts'
import { deployments } from './table.ts'

/** Maximum time to upload an archive; after that the deployment fails (D45). */
export const UPLOAD_LIFETIME_MS = 86_400_000
/** Parts are kept longer than that: completing an upload while its deployment is still PENDING finds them all. */
const PARTS_KEPT_MS = UPLOAD_LIFETIME_MS + 3_600_000
/** How long a completed upload is kept for a build that has to wait. */
const KEPT_MS = 7 * 86_400_000

/** Starts the upload of a deployment's archive; while one is open, returns that one (D80). Throws Conflict. */
export async function startUpload(
  { db, now }: Pick<DeployDeps, 'db' | 'now'>,
  { id, createdAt }: Deployment,
): Promise<{ uploadId: string }> {
  return db.transaction(async (tx) => {
    const row = await lockDeployment(tx, id)
    if (row.status !== 'PENDING') throw new Conflict(`The deployment is ${row.status}: its archive was uploaded before`)
    if (row.uploadId !== null) return { uploadId: row.uploadId }
    const time = now()
    const uploadId = newId()
    await tx.insert(uploads).values({
      id: uploadId,
      kind: 'deployment',
      bucketId: null,
      key: id,
      contentType: 'application/zip',
      headers: {},
      metadata: {},
      tags: {},
      state: 'pending',
      expiresAt: new Date(createdAt.getTime() + PARTS_KEPT_MS),
      createdAt: time,
      updatedAt: time,
    })
    await tx.update(deployments).set({ uploadId, updatedAt: time }).where(eq(deployments.id, id))
    return { uploadId }
  })
}

/** The URL to upload a part to (D80). Throws NotFound for another deployment's upload, Conflict once the upload has ended. */
export function createPartUrl(
  deps: Pick<DeployDeps, 'publicUrl' | 'partSigner' | 'now'>,
  deployment: Deployment,
  { uploadId, partNumber }: { uploadId: string; partNumber: number },
): { url: string } {
  if (deployment.uploadId !== uploadId) throw new NotFound('Upload')
  if (deployment.status !== 'PENDING') throw new Conflict(`The deployment is ${deployment.status}: its upload is over`)
  return { url: partUrlOf(deps, uploadId, partNumber) }
}

/** A part as listed by the client that completes the upload. */
export interface NamedPart {
  partNumber: number
  /** Quoted or bare. */
  etag: string
}

/** Throws BadRequest, naming the part, for a gap, a part that was not uploaded, or one whose ETag differs. */
function requireParts(named: readonly NamedPart[], stored: ReadonlyMap<number, string | null>): void {
  for (const [index, { partNumber, etag }] of named.entries()) {
    if (partNumber !== index + 1)
      throw new BadRequest(`Part ${index + 1} is missing: parts are numbered from 1 without gaps`)
    const known = stored.get(partNumber)
    if (known === undefined) throw new BadRequest(`Part ${partNumber} was not uploaded`)
    if (known !== etag) throw new BadRequest(`Part ${partNumber} has the ETag "${known}", not "${etag}"`)
  }
}

/**
 * Assembles the archive and hands the deployment to the workers, in one transaction (D45, D80). The same parts again count as a
 * repeat, whatever the deployment's state by then. Unlisted parts are dropped.
 *
 * Throws NotFound for another deployment's upload, BadRequest, and Conflict if other parts completed it.
 */
export async function completeUpload(
  { db, now, builds }: Pick<DeployDeps, 'db' | 'now' | 'builds'>,
  deployment: Deployment,
  { uploadId, parts }: { uploadId: string; parts: readonly NamedPart[] },
): Promise<void> {
  if (deployment.uploadId !== uploadId) throw new NotFound('Upload')
  const named = parts
    .map(({ partNumber, etag }) => ({ partNumber, etag: bareEtag(etag).toLowerCase() }))
    .toSorted((a, b) => a.partNumber - b.partNumber)
  const completedParts = hash('sha256', JSON.stringify(named.map(({ etag }) => etag)))
  await db.transaction(async (tx) => {
    const row = await lockDeployment(tx, deployment.id)
    if (row.completedParts !== null) {
      if (row.completedParts === completedParts && isNumberedFrom1(named)) return
      throw new Conflict('The upload was completed with other parts')
    }
    if (row.status !== 'PENDING') throw new Conflict(`The deployment is ${row.status}: its upload is over`)
    const stored = await tx
      .select({
        part: uploadBlobs.part,
        etag: uploadBlobs.etag,
        bytes: sql<number>`sum(${uploadBlobs.length})::float8`,
      })
      .from(uploadBlobs)
      .where(eq(uploadBlobs.uploadId, uploadId))
      .groupBy(uploadBlobs.part, uploadBlobs.etag)
      .orderBy(asc(uploadBlobs.part))
    requireParts(named, new Map(stored.map(({ part, etag }) => [part, etag])))
    const time = now()
    await tx.delete(uploadBlobs).where(and(eq(uploadBlobs.uploadId, uploadId), gt(uploadBlobs.part, named.length)))
    await tx
      .update(uploads)
      .set({ state: 'completed', expiresAt: new Date(time.getTime() + KEPT_MS), uploadedAt: time, updatedAt: time })
      .where(eq(uploads.id, uploadId))
    const archiveBytes = stored.reduce((total, { part, bytes }) => total + (part <= named.length ? bytes : 0), 0)
    await tx
      .update(deployments)
      .set({ status: 'QUEUED', completedParts, archiveBytes, updatedAt: time })
      .where(eq(deployments.id, row.id))
    await builds.enqueue(tx, row.id)
  })
}

const isNumberedFrom1 = (named: readonly NamedPart[]): boolean =>
  named.every(({ partNumber }, index) => partNumber === index + 1)
