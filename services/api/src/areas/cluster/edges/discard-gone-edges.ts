import { lt, sql } from 'drizzle-orm'
import type { ClusterDeps } from '../deps.ts'
import { edges } from './table.ts'

/** Deletes edges whose lease lapsed an hour ago. Safe to repeat. */
export async function discardGoneEdges({ db }: Pick<ClusterDeps, 'db'>): Promise<void> {
  await db.delete(edges).where(lt(edges.leaseUntil, sql`clock_timestamp() - interval '1 hour'`))
}
