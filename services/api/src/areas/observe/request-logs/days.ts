import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { dayOf, keepPartitionsSince } from '@platform/runtime/partitions'
import { lt } from 'drizzle-orm'
import { quotaMax } from '../../tenancy/products/quotas.ts'
import { requestCounts, requestPathRanks, requestPlaceCounts } from './table.ts'

const DAY_MS = 86_400_000

/** The first day that any organization may still query in its logs. */
export async function firstDayKept({ db, now }: { db: Db; now: () => Date }): Promise<Date> {
  return new Date(dayOf(now()).getTime() - (await quotaMax({ db }, 'log_retention_days')) * DAY_MS)
}

/** Creates the partitions of the coming days, and drops those beyond every plan's retention. Safe to repeat. */
export async function keepDays(deps: { db: Db; now: () => Date }): Promise<void> {
  const { db } = deps
  const oldest = await firstDayKept(deps)
  await keepPartitionsSince(deps, 'request_logs', oldest)
  await db.delete(requestCounts).where(lt(requestCounts.hour, oldest))
  await db.delete(requestPlaceCounts).where(lt(requestPlaceCounts.hour, oldest))
  await discardBefore(db, requestPathRanks.hour, oldest)
}
