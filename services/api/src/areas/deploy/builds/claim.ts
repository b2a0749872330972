import type { Db } from '@platform/runtime/database'
import { CONCURRENT_BUILDS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { deployments } from '../deployments/table.ts'
import { type Deployment, failDeployment, type Hold } from '../deployments/transitions.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { insertLines } from './build-log.ts'

/** How long a worker may be silent before another claims its deployment. */
const LEASE_MS = 30_000
/** A deployment fails when its lease lapses this many times. */
const INTERRUPTIONS_MAX = 3

/** The states in which a worker holds a lease. */
export const heldStatuses = ['STARTING', 'BUILDING', 'PROVISIONING'] as const
export type HeldStatus = (typeof heldStatuses)[number]

/** How long each state may take, in milliseconds. */
export const deadlineMs: Record<HeldStatus, number> = { STARTING: 300_000, BUILDING: 600_000, PROVISIONING: 60_000 }

/** The failure reason of a deployment that exceeded the deadline of a state. */
export const lateReason = (status: HeldStatus): string =>
  `${status} took longer than ${deadlineMs[status] / 60_000} ${deadlineMs[status] === 60_000 ? 'minute' : 'minutes'}`

/** The failure reason of a build that was queued beyond its deadline. */
export const unturnedReason = 'The build waited too long for its turn: deploy again'

const isHeldStatus = (status: string): status is HeldStatus => (heldStatuses as readonly string[]).includes(status)

type ClaimDeps = Pick<DeployDeps, 'db' | 'now' | 'builds'>

/** A deployment as claimed, with the end of the lease and of its first state. */
type ClaimedDeployment = Deployment & { leaseUntil: Date; deadlineAt: Date }

/** True while fewer builds of an organization are under way than its quota allows. */
async function hasRoom(tx: Db, organizationId: string, quota: number): Promise<boolean> {
  await tx.execute(sql`select pg_advisory_xact_lock(${CONCURRENT_BUILDS_LOCK_CLASS}, hashtext(${organizationId}))`)
  const underWay = await tx.$count(
    deployments,
    and(eq(deployments.organizationId, organizationId), inArray(deployments.status, [...heldStatuses])),
  )
  return underWay < quota
}

/** What a claim writes if the lease was released or has lapsed; undefined while a worker holds it. */
function takeOver(row: Deployment, time: Date): { interruptions: number; line: string } | undefined {
  if (row.leaseUntil === null)
    return { interruptions: row.interruptions, line: 'Another worker goes on with it from the start' }
  if (row.leaseUntil >= time) return undefined
  return { interruptions: row.interruptions + 1, line: 'The worker on it was interrupted; another begins again' }
}

/**
 * Claims a deployment for a worker: a queued one if its organization runs fewer builds than its quota allows, or one whose lease
 * was released or has lapsed. The claim starts a new attempt in STARTING, so writes of an earlier worker no longer match. The
 * third lapsed lease fails the deployment. Time of earlier attempts is not billed.
 *
 * Returns undefined if there is nothing to claim; a queued deployment that found no room stays queued.
 */
export async function claimDeployment({ db, now }: ClaimDeps, id: string): Promise<ClaimedDeployment | undefined> {
  const [known] = await db
    .select({ organizationId: deployments.organizationId })
    .from(deployments)
    .where(eq(deployments.id, id))
  if (!known) return undefined
  const quota = await quotaOf({ db }, known.organizationId, 'concurrent_builds')
  return db.transaction(async (tx) => {
    const isRoom = await hasRoom(tx, known.organizationId, quota)
    const [row] = await tx.select().from(deployments).where(eq(deployments.id, id)).for('no key update')
    if (!row) return undefined
    const time = now()
    const isQueued = row.status === 'QUEUED'
    if (isQueued ? !isRoom : !isHeldStatus(row.status)) return undefined
    const taken = isQueued ? undefined : takeOver(row, time)
    if (!isQueued && !taken) return undefined
    if (taken && taken.interruptions >= INTERRUPTIONS_MAX) {
      const { attempt } = row
      await tx.update(deployments).set({ buildStartedAt: null }).where(eq(deployments.id, id))
      await insertLines(tx, { id, attempt }, [
        { at: time.getTime(), type: 'ERROR', text: 'The platform was interrupted' },
      ])
      await failDeployment(tx, time, { id, attempt }, 'The platform was interrupted', 'deployment.failed', {
        kind: 'platform',
      })
      return undefined
    }
    const leaseUntil = new Date(time.getTime() + LEASE_MS)
    const deadlineAt = new Date(time.getTime() + deadlineMs.STARTING)
    const [claimed] = await tx
      .update(deployments)
      .set({
        status: 'STARTING',
        attempt: row.attempt + 1,
        ...(taken && { interruptions: taken.interruptions }),
        leaseUntil,
        deadlineAt,
        // Attempts lost by the platform are not billed.
        buildStartedAt: time,
        updatedAt: time,
      })
      .where(eq(deployments.id, id))
      .returning()
    if (claimed && taken) await insertLines(tx, claimed, [{ at: time.getTime(), type: 'INFO', text: taken.line }])
    return claimed && { ...claimed, leaseUntil, deadlineAt }
  })
}

const isHeldBy = ({ id, attempt }: Hold) =>
  and(eq(deployments.id, id), eq(deployments.attempt, attempt), inArray(deployments.status, [...heldStatuses]))

/** Renews a lease. Returns the lease's end, or undefined if the deployment has ended or belongs to another attempt. */
export async function renewLease({ db, now }: ClaimDeps, hold: Hold): Promise<Date | undefined> {
  const leaseUntil = new Date(now().getTime() + LEASE_MS)
  const renewed = await db
    .update(deployments)
    .set({ leaseUntil })
    .where(isHeldBy(hold))
    .returning({ id: deployments.id })
  return renewed.length > 0 ? leaseUntil : undefined
}

/** Releases a deployment to another worker, at once and without counting as an interruption. */
export async function giveUpLease({ db, builds }: ClaimDeps, hold: Hold): Promise<void> {
  await db.transaction(async (tx) => {
    const released = await tx
      .update(deployments)
      .set({ leaseUntil: null })
      .where(isHeldBy(hold))
      .returning({ id: deployments.id })
    if (released.length > 0) await builds.enqueue(tx, hold.id)
  })
}

/** Enqueues the organization's deployment that has been queued longest, after one of its builds has ended. */
export async function enqueueNext({ db, builds }: ClaimDeps, organizationId: string): Promise<void> {
  const [next] = await db
    .select({ id: deployments.id })
    .from(deployments)
    .where(and(eq(deployments.organizationId, organizationId), eq(deployments.status, 'QUEUED')))
    .orderBy(asc(deployments.id))
    .limit(1)
  if (next) await builds.enqueue(db, next.id)
}
