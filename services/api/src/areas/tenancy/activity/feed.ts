import type { Db } from '@platform/runtime/database'
import { and, asc, eq, gt } from 'drizzle-orm'
import { eventText, type Feed, type FeedDeps, openFeed } from '../../cluster/streams/feed.ts'
import { shownActivity } from './shown-activity.ts'
import { activities } from './table.ts'

/** The channel on which Postgres announces the ids of applications with new activity. */
export const ACTIVITY_CHANNEL = 'activity'

/** Streams of applications' activity, positioned by its number. */
export type ActivityFeed = Feed<number>

/** Opens the activity feed of this process. */
export function openActivityFeed(deps: FeedDeps & { db: Db }, heartbeatMs?: number): ActivityFeed & { close(): void } {
  const source = {
    name: 'activity',
    channel: ACTIVITY_CHANNEL,
    isAfter: (a: number, b: number) => a > b,
    async read(applicationId: string, after: number, limit: number) {
      const rows = await deps.db
        .select()
        .from(activities)
        .where(and(eq(activities.applicationId, applicationId), gt(activities.number, after)))
        .orderBy(asc(activities.number))
        .limit(limit)
      return rows.map((row) => {
        const shown = shownActivity(row)
        return { place: row.number, text: eventText(row.type, shown, shown.id) }
      })
    },
  }
  return openFeed(deps, source, heartbeatMs)
}
