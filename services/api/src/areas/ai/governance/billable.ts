import { one } from '@platform/runtime/database'
import { and, eq, gte, sql } from 'drizzle-orm'
import type { AiDeps } from '../deps.ts'
import { aiUsageSums } from './table.ts'

/**
 * Returns what an organization owes for calls with the operator's keys since the start of a UTC day, in millionths of a US dollar,
 * rounded up.
 */
export async function billableMicrosSince(
  { db }: Pick<AiDeps, 'db'>,
  organizationId: string,
  day: Date,
): Promise<number> {
  const rows = await db
    .select({ micros: sql<number>`coalesce(ceil(sum(${aiUsageSums.billableCostNanos}) / 1000), 0)::float8` })
    .from(aiUsageSums)
    .where(and(eq(aiUsageSums.organizationId, organizationId), eq(aiUsageSums.span, 'day'), gte(aiUsageSums.at, day)))
  return one(rows).micros
}
