import type { Db } from '@platform/runtime/database'
import { and, asc, eq, gt, max } from 'drizzle-orm'
import { eventText, type Feed, type FeedDeps, openFeed, type StreamedEvent } from '../../cluster/streams/feed.ts'
import { shownLine } from './shown-line.ts'
import { runtimeLogs } from './table.ts'

/** Announces the ids of applications with new lines. */
export const RUNTIME_LOGS_CHANNEL = 'runtime_logs'

type Line = typeof runtimeLogs.$inferSelect
interface LineEvent extends StreamedEvent<number> {
  line: Line
}

/** Streams of applications' lines, positioned by the number under which they were stored. */
export type RuntimeLogFeed = Feed<number, LineEvent>

/** Opens this process's feed of runtime logs: `log` with a line as in an application's list (D85). */
export function openRuntimeLogFeed(
  deps: FeedDeps & { db: Db },
  heartbeatMs?: number,
): RuntimeLogFeed & { close(): void } {
  const { db } = deps
  const source = {
    name: 'runtime-log',
    channel: RUNTIME_LOGS_CHANNEL,
    isAfter: (a: number, b: number) => a > b,
    async read(applicationId: string, after: number, limit: number): Promise<LineEvent[]> {
      const rows = await db
        .select()
        .from(runtimeLogs)
        .where(and(eq(runtimeLogs.applicationId, applicationId), gt(runtimeLogs.number, after)))
        .orderBy(asc(runtimeLogs.number))
        .limit(limit)
      return rows.map((line) => ({
        place: line.number,
        text: eventText('log', shownLine(line), line.id),
        line,
      }))
    },
  }
  return openFeed(deps, source, heartbeatMs)
}

/**
 * Where a stream begins: now, or after the last line received. If that is no longer stored, before the first line that followed
 * it.
 */
export async function placeToFollowFrom(
  { db }: { db: Db },
  applicationId: string,
  lastEventId: string | undefined,
): Promise<number> {
  const mine = eq(runtimeLogs.applicationId, applicationId)
  if (lastEventId !== undefined) {
    const [last] = await db
      .select({ number: runtimeLogs.number })
      .from(runtimeLogs)
      .where(and(mine, eq(runtimeLogs.id, lastEventId)))
    if (last) return last.number
    const [next] = await db
      .select({ number: runtimeLogs.number })
      .from(runtimeLogs)
      .where(and(mine, gt(runtimeLogs.id, lastEventId)))
      .orderBy(asc(runtimeLogs.id))
      .limit(1)
    if (next) return next.number - 1
  }
  const [latest] = await db
    .select({ number: max(runtimeLogs.number) })
    .from(runtimeLogs)
    .where(mine)
  return latest?.number ?? 0
}
