import type { Db } from '@platform/runtime/database'
import { and, eq, inArray, lt, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import type { Actor } from '../../../http/actor.ts'
import { type PlatformActor, recordActivity } from '../../tenancy/activity/record.ts'
import { endFunctionCredential } from '../../credentials/api-keys/function-credential.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { deployments } from './table.ts'

/** States that a deployment can still leave (D45). */
export const unendedStatuses = ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING'] as const
export type UnendedStatus = (typeof unendedStatuses)[number]

export type Deployment = typeof deployments.$inferSelect

/** A transaction, or the pool if one statement suffices. */
type Writer = Pick<Db, 'update' | 'insert' | 'execute'>

/** A worker's claim on a deployment. Each later claim has a higher attempt, which fences off earlier ones. */
export interface Hold {
  id: string
  attempt: number
}

/**
 * Advances a deployment that is still in `from` and belongs to this attempt. One statement, so safe to race.
 *
 * set: columns that change with the status; at: the new `updated_at`.
 * Returns false, having written nothing, if the deployment has moved on; the worker must stop.
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

/**
 * Which deployment to fail. attempt: only while it belongs to that attempt; from: only in these states, by default any unended
 * one.
 */
interface Failing {
  id: string
  attempt?: number
  from?: readonly UnendedStatus[]
}

/**
 * Ends a deployment as FAILED, revokes its credential and records an activity of `type`, within the transaction `tx`.
 *
 * reason: a sentence for its author, shown as `failureReason`.
 * Returns the updated row, or undefined, having written nothing, if it had ended or belongs to another attempt. D45.
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
 * Makes a provisioned deployment ACTIVE and, unless a later one already is, current in its environment, in one transaction. An
 * older one that finishes late becomes ACTIVE at its own hostname only, so it never replaces a newer one.
 *
 * Returns whether it is current now, or undefined if it no longer belongs to this attempt. D45, D81.
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
