/** Every table of the API's database, for drizzle-kit: an explicit list, since some tables belong to no feature. */
export { signingKeys } from '@platform/auth/signing-keys-table'
export { auditEvents } from '@platform/service/audit-table'
export { apiKeys } from './features/api-keys/table.ts'
export { applications, environments } from './features/applications/table.ts'
export { envVars } from './features/env-vars/table.ts'
export { members, memberships, organizations } from './features/organizations/table.ts'
export { profiles } from './features/profiles/table.ts'
export { billingCaps, entitlements, quotaOverrides, subscriptions, functionTime } from './features/products/table.ts'
export { hostnames } from './features/applications/hostnames-table.ts'
export { idempotentRequests } from './http/idempotency-table.ts'
export {
  followedRequests,
  requestCounts,
  requestLogs,
  requestPathRanks,
  requestPlaceCounts,
  requestSummaries,
} from './features/request-logs/table.ts'
export { activities } from './features/activity/table.ts'
export {
  buildLogs,
  deploymentCounts,
  deploymentFunctions,
  deployments,
  environmentDeploymentCounts,
} from './features/deployments/table.ts'
export {
  artifactEncodings,
  artifacts,
  buildCaches,
  deploymentFallbacks,
  deploymentFiles,
  functionFiles,
  functionLinks,
} from './features/artifacts/table.ts'
export { patternVerdicts } from './features/builds/table.ts'
export { openStreams } from './features/streams/table.ts'
export {
  blobCandidates,
  blobs,
  bucketCounts,
  buckets,
  objectBlobs,
  objects,
  storedBytes,
  uploadBlobs,
  uploads,
} from './features/storage/table.ts'
export { bucketConfigurations } from './features/s3/table.ts'
export { functionSlots } from './features/functions/table.ts'
export { runtimeLogs } from './features/runtime-logs/table.ts'
export { imageCaches, imagePurges, imageTotals, imageVariants } from './features/images/table.ts'
export { isrClaims, isrData, isrPages, isrTags, isrTotals } from './features/isr/table.ts'
export { cronRuns, deploymentCrons } from './features/crons/table.ts'
export { edges } from './features/edges/table.ts'
export { stickyPins } from './features/sticky-sessions/table.ts'
export {
  aiBudgets,
  aiBudgetWindows,
  aiHolds,
  aiPolicies,
  aiProviderKeys,
  aiUsageEvents,
  aiUsageSums,
} from './features/ai-governance/table.ts'
export { aiResponseItems, aiResponses, aiVideoJobs } from './features/ai-gateway/table.ts'
