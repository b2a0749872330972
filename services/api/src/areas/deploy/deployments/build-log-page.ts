import { one } from '@platform/runtime/database'
import { and, asc, count, eq, gt } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { buildLogs } from './table.ts'

export type BuildLogRecord = typeof buildLogs.$inferSelect

/** A page of a deployment's build log, oldest line first; `totalItems` counts after the filter (A §1, D84). */
export async function buildLogPage(
  { db }: Pick<DeployDeps, 'db'>,
  deploymentId: string,
  { offset, limit, after }: { offset: number; limit: number; after: Date | undefined },
): Promise<{ totalItems: number; limit: number; offset: number; items: BuildLogRecord[] }> {
  const where = and(eq(buildLogs.deploymentId, deploymentId), after && gt(buildLogs.createdAt, after))
  const [items, counted] = await Promise.all([
    db.select().from(buildLogs).where(where).orderBy(asc(buildLogs.createdAt)).offset(offset).limit(limit),
    db.select({ totalItems: count() }).from(buildLogs).where(where),
  ])
  return { ...one(counted), limit, offset, items }
}
