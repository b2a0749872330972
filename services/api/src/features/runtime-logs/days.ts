import type { Db } from '@platform/runtime/database'
import { keepPartitionsSince } from '@platform/runtime/partitions'
import { firstDayKept } from '../request-logs/days.ts'

/** Makes the partitions of the days to come, and drops those that nobody may look at any more (D77). Safe to repeat. */
export const keepRuntimeLogDays = async (deps: { db: Db; now: () => Date }): Promise<void> =>
  keepPartitionsSince(deps, 'runtime_logs', await firstDayKept(deps))
