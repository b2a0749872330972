import { ValidationFailed } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import { and, asc, eq, gt, sql } from 'drizzle-orm'
import { eventText, type Feed, type FeedDeps, openFeed } from '../../cluster/streams/feed.ts'
import { buildLogs, deployments } from './table.ts'

/** Streams of build logs, positioned by the time of the line in milliseconds, which is unique in a deployment (D84). */
export type BuildLogFeed = Feed<number>

/** Position before the first line. */
const BEGINNING = 0

/** Opens this process's feed of build logs, with events `log`, `status` and `end` (D85). Database triggers announce changes. */
export function openBuildLogFeed(deps: FeedDeps & { db: Db }, heartbeatMs?: number): BuildLogFeed & { close(): void } {
  const { db } = deps
  const source = {
    name: 'build-log',
    channel: 'build_logs',
    isAfter: (a: number, b: number) => a > b,
    async read(deploymentId: string, after: number, limit: number) {
      const rows = await db
        .select()
        .from(buildLogs)
        .where(and(eq(buildLogs.deploymentId, deploymentId), gt(buildLogs.createdAt, new Date(after))))
        .orderBy(asc(buildLogs.createdAt))
        .limit(limit)
      return rows.map(({ id, message, type, createdAt }) => {
        const data = { id, message, type, createdAt: createdAt.toISOString() }
        return { place: createdAt.getTime(), text: eventText('log', data, id) }
      })
    },
    async readState(deploymentId: string) {
      const [row] = await db
        .select({ status: deployments.status, failureReason: deployments.failureReason })
        .from(deployments)
        .where(eq(deployments.id, deploymentId))
      // Deleting an application deletes its deployments, so there is nothing left to follow.
      if (!row) return { text: '', isOver: true }
      return { text: eventText('status', row), isOver: row.status === 'ACTIVE' || row.status === 'FAILED' }
    },
  }
  return openFeed(deps, source, heartbeatMs)
}

/**
 * Where a stream resumes: after the last line received, or at the beginning. Returns undefined if the deployment has ended and no
 * line follows (D85). Throws ValidationFailed if the id belongs to a line of another deployment.
 */
export async function placeToFollowFrom(
  { db }: { db: Db },
  deploymentId: string,
  lastEventId: string | undefined,
): Promise<number | undefined> {
  if (lastEventId === undefined) return BEGINNING
  const [line] = await db
    .select({
      createdAt: buildLogs.createdAt,
      isLast: sql<boolean>`${deployments.status} in ('ACTIVE', 'FAILED') and not exists (
        select from ${buildLogs} later where later.deployment_id = ${deployments.id} and later.created_at > ${buildLogs.createdAt})`,
    })
    .from(buildLogs)
    .innerJoin(deployments, eq(deployments.id, buildLogs.deploymentId))
    .where(and(eq(buildLogs.deploymentId, deploymentId), eq(buildLogs.id, lastEventId)))
  if (!line) {
    const message = 'Expected the id of an event of this stream'
    throw new ValidationFailed('headers', [
      {
        property: '/Last-Event-ID',
        message,
        summary: message,
        expected: 'the id of a line of this log',
        found: lastEventId,
      },
    ])
  }
  return line.isLast ? undefined : line.createdAt.getTime()
}
