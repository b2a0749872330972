import { timeOfId } from '@platform/runtime/new-id'
import type { runtimeLogs } from './table.ts'

/** A line as answers show it: when it was printed is in its id (wire.md Runtime log). */
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
