/** Every table of the API's database, for drizzle-kit: an explicit list, since some tables belong to no feature. */
export { signingKeys } from '@platform/auth/signing-keys-table'
export { auditEvents } from '@platform/service/audit-table'
export { apiKeys } from './areas/credentials/api-keys/table.ts'
export { applications, environments } from './areas/tenancy/applications/table.ts'
export { envVars } from './areas/tenancy/env-vars/table.ts'
export { members, memberships, organizations } from './areas/tenancy/organizations/table.ts'
export { profiles } from './areas/tenancy/profiles/table.ts'
export {
  billingCaps,
  entitlements,
  quotaOverrides,
  subscriptions,
  functionTime,
} from './areas/tenancy/products/table.ts'
export { hostnames } from './areas/tenancy/applications/hostnames-table.ts'
export { idempotentRequests } from './http/idempotency-table.ts'
export {
  followedRequests,
  requestCounts,
  requestLogs,
  requestPathRanks,
  requestPlaceCounts,
  requestSummaries,
} from './areas/observe/request-logs/table.ts'
export { activities } from './areas/tenancy/activity/table.ts'
export {
  buildLogs,
  deploymentCounts,
  deploymentFunctions,
  deployments,
  environmentDeploymentCounts,
} from './areas/deploy/deployments/table.ts'
export {
  artifactEncodings,
  artifacts,
  buildCaches,
  deploymentFallbacks,
  deploymentFiles,
  functionFiles,
  functionLinks,
} from './areas/deploy/artifacts/table.ts'
export { patternVerdicts } from './areas/deploy/builds/table.ts'
export { openStreams } from './areas/cluster/streams/table.ts'
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
} from './areas/storage/objects/table.ts'
export { bucketConfigurations } from './areas/storage/s3/table.ts'
export { functionSlots } from './areas/edge/functions/table.ts'
export { runtimeLogs } from './areas/observe/runtime-logs/table.ts'
export { imageCaches, imagePurges, imageTotals, imageVariants } from './areas/edge/images/table.ts'
export { isrClaims, isrData, isrPages, isrTags, isrTotals } from './areas/edge/isr/table.ts'
export { deploymentCrons } from './areas/deploy/deployments/table.ts'
export { cronRuns } from './areas/edge/crons/table.ts'
export { edges } from './areas/cluster/edges/table.ts'
export { stickyPins } from './areas/edge/sticky-sessions/table.ts'
export {
  aiBudgets,
  aiBudgetWindows,
  aiHolds,
  aiPolicies,
  aiProviderKeys,
  aiUsageEvents,
  aiUsageSums,
} from './areas/ai/governance/table.ts'
export { aiResponseItems, aiResponses, aiVideoJobs } from './areas/ai/gateway/table.ts'
