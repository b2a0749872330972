import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { eq, sql } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import { applications } from '../applications/table.ts'
import { ACTIVITY_CHANNEL } from './feed.ts'
import { activities, type ActivityType } from './table.ts'

const KEPT_MS = 30 * 86_400_000

/** The platform itself, for actions that no request caused: a build ended, a retention period passed. */
export interface PlatformActor {
  kind: 'platform'
}

function actorOf(by: Actor | PlatformActor): typeof activities.$inferInsert.actor {
  switch (by.kind) {
    case 'user':
      return { type: 'user', id: by.userId }
    case 'key':
      return { type: 'api_key', id: by.keyId }
    case 'function':
      return { type: 'function', id: by.deploymentId }
    case 'platform':
      return { type: 'platform', id: 'platform' }
  }
}

/** An action on an application. */
interface Done {
  applicationId: string
  type: ActivityType
  by: Actor | PlatformActor
  /** Id and name of the object of the action. Never a value, never a secret. */
  subject: Record<string, string | boolean | null>
}

/**
 * Records an activity in the transaction that performs it, and notifies followers once that commits. The application's row is
 * locked from here on, so numbers follow the order of commits and none can appear below one that was already sent.
 */
export async function recordActivity(
  tx: Pick<Db, 'update' | 'insert' | 'execute'>,
  time: Date,
  { applicationId, type, by, subject }: Done,
): Promise<void> {
  const [next] = await tx
    .update(applications)
    .set({ activityNumber: sql`${applications.activityNumber} + 1` })
    .where(eq(applications.id, applicationId))
    .returning({ number: applications.activityNumber })
  if (!next) return // the application was deleted, along with its feed
  const actor = actorOf(by)
  await tx.insert(activities).values({ applicationId, number: next.number, type, actor, subject, createdAt: time })
  await tx.execute(sql`select pg_notify(${ACTIVITY_CHANNEL}, ${applicationId})`)
}

/** Deletes activities older than 30 days. */
export async function discardActivities({ db, now }: Pick<TenancyDeps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, activities.createdAt, new Date(now().getTime() - KEPT_MS))
}
