import type { Db } from '@platform/runtime/database'
import { keepPartitionsSince } from '@platform/runtime/partitions'
import { firstDayKept } from '../request-logs/days.ts'

/** Creates the partitions of the coming days, and drops those beyond every plan's retention (D77). Safe to repeat. */
export const keepRuntimeLogDays = async (deps: { db: Db; now: () => Date }): Promise<void> =>
  keepPartitionsSince(deps, 'runtime_logs', await firstDayKept(deps))
