import type { Db } from '@platform/runtime/database'
import { and, eq, inArray, lt, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import type { Actor } from '../../deps.ts'
import { type PlatformActor, recordActivity } from '../activity/record.ts'
import { endFunctionCredential } from '../api-keys/function-credential.ts'
import { environments } from '../applications/table.ts'
import { deployments } from './table.ts'

/** The states that a deployment can still leave (D45). */
export const unendedStatuses = ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING'] as const
export type UnendedStatus = (typeof unendedStatuses)[number]

export type Deployment = typeof deployments.$inferSelect

/** A transaction, or the pool where one statement is enough. */
type Writer = Pick<Db, 'update' | 'insert' | 'execute'>

/** A worker's claim on a deployment. Each later claim has a higher attempt, which fences the earlier ones. */
export interface Hold {
  id: string
  attempt: number
}

/**
 * Moves a deployment on, if it is still in `from` and still this attempt's. One statement, so safe to race.
 *
 * set: columns that change with the status; at: the new `updated_at`.
 * Returns false where somebody else moved it meanwhile: then nothing was written, and this worker is to stop.
 */
export async function advance(
  db: Writer,
  time: Date,
  { id, attempt }: Hold,
  { from, to, set = {} }: { from: UnendedStatus; to: UnendedStatus; set?: PgUpdateSetSource<typeof deployments> },
): Promise<boolean> {
  const moved = await db
    .update(deployments)
    .set({ ...set, status: to, updatedAt: time })
    .where(and(eq(deployments.id, id), eq(deployments.status, from), eq(deployments.attempt, attempt)))
    .returning({ id: deployments.id })
  return moved.length > 0
}

const subjectOf = ({ id, label, environmentId }: Deployment) => ({ type: 'deployment', id, label, environmentId })

/** Which deployment is to fail. attempt: only while it is that attempt's; from: only in these states, any unended one unless said. */
interface Failing {
  id: string
  attempt?: number
  from?: readonly UnendedStatus[]
}

/**
 * Ends a deployment as FAILED, its credential with it, and records it as `type`, within the transaction `tx`.
 *
 * reason: a sentence for its author, shown as `failureReason`.
 * Returns the row as it is now, or undefined where it had ended, or was another attempt's: then nothing was written. D45.
 */
export async function failDeployment(
  tx: Writer,
  time: Date,
  { id, attempt, from = unendedStatuses }: Failing,
  reason: string,
  type: 'deployment.failed' | 'deployment.cancelled',
  by: Actor | PlatformActor,
): Promise<Deployment | undefined> {
  const [failed] = await tx
    .update(deployments)
    .set({
      status: 'FAILED',
      failureReason: reason,
      leaseUntil: null,
      deadlineAt: null,
      sealedVariables: null,
      buildEndedAt: sql`case when ${deployments.buildStartedAt} is null then null else ${time.toISOString()}::timestamptz end`,
      updatedAt: time,
    })
    .where(
      and(
        eq(deployments.id, id),
        inArray(deployments.status, [...from]),
        attempt === undefined ? undefined : eq(deployments.attempt, attempt),
      ),
    )
    .returning()
  if (!failed) return undefined
  await endFunctionCredential(tx, time, id)
  await recordActivity(tx, time, { applicationId: failed.applicationId, type, by, subject: subjectOf(failed) })
  return failed
}

/**
 * Makes a provisioned deployment ACTIVE and, unless a later one already is, what its environment serves: all of it or nothing.
 * An older one that ends late is ACTIVE at its own hostname alone, so it never overtakes a newer.
 *
 * Returns whether the environment now serves it, or undefined where the deployment is no longer this attempt's. D45, D81.
 */
export async function activateDeployment(
  { db }: { db: Db },
  time: Date,
  { id, attempt }: Hold,
): Promise<{ isCurrent: boolean } | undefined> {
  return db.transaction(async (tx) => {
    const [active] = await tx
      .update(deployments)
      .set({
        status: 'ACTIVE',
        activatedAt: time,
        buildEndedAt: time,
        leaseUntil: null,
        deadlineAt: null,
        updatedAt: time,
      })
      .where(and(eq(deployments.id, id), eq(deployments.status, 'PROVISIONING'), eq(deployments.attempt, attempt)))
      .returning()
    if (!active) return undefined
    const taken = await tx
      .update(environments)
      .set({ currentDeploymentId: id, currentSeq: active.seq })
      .where(and(eq(environments.id, active.environmentId), lt(environments.currentSeq, active.seq)))
      .returning({ id: environments.id })
    const isCurrent = taken.length > 0
    await recordActivity(tx, time, {
      applicationId: active.applicationId,
      type: 'deployment.active',
      by: { kind: 'platform' },
      subject: { ...subjectOf(active), isCurrent },
    })
    return { isCurrent }
  })
}
