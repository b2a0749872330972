import type { TestPlatform } from '@platform/testing/platform'
import type { SQL } from 'drizzle-orm'
import { expect } from 'vitest'
import { requestLogs } from '../src/areas/observe/request-logs/table.ts'

/**
 * Rows of the request log, once there are so many: a request is written down when its answer is over, which its client may know first.
 * Those that began in one millisecond are in any order.
 */
export async function loggedRequests({ api }: Pick<TestPlatform, 'api'>, where: SQL | undefined, count: number) {
  const read = async () => {
    await api.requestLog.flush()
    return api.db.select().from(requestLogs).where(where)
  }
  await expect.poll(async () => (await read()).length).toBe(count)
  return read()
}
