export {
  followedRequests,
  requestCounts,
  requestLogs,
  requestPathRanks,
  requestPlaceCounts,
  requestSummaries,
} from './request-logs/table.ts'
export { runtimeLogs } from './runtime-logs/table.ts'
