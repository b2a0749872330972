import { UPLOAD_LIFETIME_MS } from '../deployments/upload.ts'
import { and, asc, eq, gte, inArray, isNull, lt, or } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { deployments } from '../deployments/table.ts'
import { failDeployment, type Hold, type UnendedStatus } from '../deployments/transitions.ts'
import { uploads } from '../../storage/objects/table.ts'
import { insertLines } from './build-log.ts'
import { heldStatuses, lateReason, unturnedReason } from './claim.ts'
import { removeStaleFolders } from './work-folder.ts'

/** A deployment queued longer than this has lost its job, or waits for its organization's other builds. */
const UNTAKEN_MS = 10_000
const AT_ONCE = 100

type SweepDeps = Pick<DeployDeps, 'db' | 'now' | 'builds'>

async function failAll(
  { db, now }: SweepDeps,
  rows: readonly Hold[],
  from: readonly UnendedStatus[],
  reason: string,
): Promise<void> {
  for (const hold of rows)
    await db.transaction(async (tx) => {
      const time = now()
      await insertLines(tx, hold, [{ at: time.getTime(), type: 'ERROR', text: reason }])
      await failDeployment(tx, time, { ...hold, from }, reason, 'deployment.failed', { kind: 'platform' })
    })
}

const hold = { id: deployments.id, attempt: deployments.attempt }

async function failAbandoned(deps: SweepDeps): Promise<void> {
  const before = new Date(deps.now().getTime() - UPLOAD_LIFETIME_MS)
  const rows = await deps.db
    .select(hold)
    .from(deployments)
    .where(and(eq(deployments.status, 'PENDING'), lt(deployments.createdAt, before)))
    .limit(AT_ONCE)
  await failAll(deps, rows, ['PENDING'], 'The upload was abandoned: it was not completed within 24 hours')
}

/** Only while a worker renews the lease: otherwise the platform was down, and another worker starts over. */
async function failLate(deps: SweepDeps): Promise<void> {
  const time = deps.now()
  for (const status of heldStatuses) {
    const rows = await deps.db
      .select({ ...hold, buildStartedAt: deployments.buildStartedAt })
      .from(deployments)
      .where(and(eq(deployments.status, status), lt(deployments.deadlineAt, time), gte(deployments.leaseUntil, time)))
      .limit(AT_ONCE)
    // Waiting builds are not billed, so they have no build start.
    const [waiting = [], working = []] = [true, false].map((isWaiting) =>
      rows.filter(({ buildStartedAt }) => (buildStartedAt === null) === isWaiting),
    )
    await failAll(deps, waiting, [status], unturnedReason)
    await failAll(deps, working, [status], lateReason(status))
  }
}

/** Enqueues deployments that no worker holds: with a released or lapsed lease, or queued without a job (one per organization). */
async function enqueueForgotten({ db, now, builds }: SweepDeps): Promise<void> {
  const time = now()
  const unheld = await db
    .select({ id: deployments.id })
    .from(deployments)
    .where(
      and(
        inArray(deployments.status, [...heldStatuses]),
        or(isNull(deployments.leaseUntil), lt(deployments.leaseUntil, time)),
      ),
    )
    .limit(AT_ONCE)
  const queued = await db
    .selectDistinctOn([deployments.organizationId], { id: deployments.id })
    .from(deployments)
    .where(and(eq(deployments.status, 'QUEUED'), lt(deployments.updatedAt, new Date(time.getTime() - UNTAKEN_MS))))
    .orderBy(asc(deployments.organizationId), asc(deployments.id))
    .limit(AT_ONCE)
  for (const { id } of [...unheld, ...queued]) await builds.enqueue(db, id)
}

/** Deletes the uploads of deployments that have ended. */
async function discardArchives({ db }: SweepDeps): Promise<void> {
  const ended = db
    .select({ id: uploads.id })
    .from(uploads)
    .innerJoin(deployments, eq(deployments.uploadId, uploads.id))
    .where(and(eq(uploads.kind, 'deployment'), inArray(deployments.status, ['ACTIVE', 'FAILED'])))
    .orderBy(asc(uploads.id))
    .limit(AT_ONCE)
    .for('update', { of: uploads, skipLocked: true })
  await db.delete(uploads).where(inArray(uploads.id, ended))
}

/**
 * Recovers stalled deployments: fails abandoned and overdue ones, enqueues those that lost their worker or their job, and removes
 * leftover uploads and folders. Safe to repeat, and in several processes at once.
 */
export async function sweepDeployments(deps: SweepDeps): Promise<void> {
  await failAbandoned(deps)
  await failLate(deps)
  await enqueueForgotten(deps)
  await discardArchives(deps)
  await removeStaleFolders()
}
