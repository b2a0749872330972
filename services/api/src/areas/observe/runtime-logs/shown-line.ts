import { timeOfId } from '@platform/runtime/new-id'
import type { runtimeLogs } from './table.ts'

/** A line as answers show it: its id contains the time when it was printed (wire.md Runtime log). */
export const shownLine = (row: typeof runtimeLogs.$inferSelect) => ({
  id: row.id,
  deploymentId: row.deploymentId,
  deploymentFunctionId: row.functionId,
  functionName: row.functionName,
  slot: row.slot,
  requestId: row.requestId,
  level: row.level,
  message: row.message,
  createdAt: timeOfId(row.id),
})
