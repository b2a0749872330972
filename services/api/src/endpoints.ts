import { activityEndpoints } from './areas/tenancy/activity/routes.ts'
import { findBudgetWarnings } from './areas/ai/gateway/holds/budget-warnings.ts'
import { aiGatewayEndpoints } from './areas/ai/gateway/routes.ts'
import { aiGovernanceEndpoints } from './areas/ai/governance/routes.ts'
import { aiUsageEndpoints } from './areas/ai/governance/usage/routes.ts'
import { aiPolicyEndpoints } from './areas/ai/governance/policies/routes.ts'
import { aiBudgetEndpoints } from './areas/ai/governance/budgets/routes.ts'
import { apiKeyEndpoints } from './areas/credentials/api-keys/routes.ts'
import { applicationEndpoints } from './areas/tenancy/applications/routes.ts'
import { artifactEndpoints } from './areas/deploy/artifacts/routes.ts'
import { deploymentEndpoints } from './areas/deploy/deployments/routes.ts'
import { clientEndpoints } from './areas/overview/reference/clients.ts'
import { referenceEndpoints } from './areas/overview/reference/reference.ts'
import { wellKnownEndpoints } from './areas/credentials/well-known/routes.ts'
import { envVarEndpoints } from './areas/tenancy/env-vars/routes.ts'
import { cronEndpoints } from './areas/edge/crons/routes.ts'
import { functionEndpoints } from './areas/edge/functions/routes.ts'
import { hostnameEndpoints } from './areas/deploy/hostnames/routes.ts'
import { imageEndpoints } from './areas/edge/images/routes.ts'
import { organizationEndpoints } from './areas/tenancy/organizations/routes.ts'
import { overviewEndpoints } from './areas/overview/overview/routes.ts'
import { productEndpoints } from './areas/tenancy/products/routes.ts'
import { quotaEndpoints } from './areas/overview/quotas/routes.ts'
import { requestLogEndpoints } from './areas/observe/request-logs/routes.ts'
import { runtimeLogEndpoints } from './areas/observe/runtime-logs/routes.ts'
import { stickySessionEndpoints } from './areas/edge/sticky-sessions/routes.ts'
import { storageEndpoints } from './areas/storage/objects/routes.ts'
import { uploadEndpoints } from './areas/storage/uploads/routes.ts'
import { tokenEndpoints } from './areas/credentials/tokens/routes.ts'
import type { Deps } from './deps.ts'
import type { Endpoint } from './http/endpoint.ts'

/** The whole API. Start here. */
export const endpoints: readonly Endpoint<Deps>[] = [
  ...organizationEndpoints,
  ...productEndpoints,
  ...quotaEndpoints,
  ...applicationEndpoints,
  ...overviewEndpoints,
  ...deploymentEndpoints,
  ...artifactEndpoints,
  ...functionEndpoints,
  ...cronEndpoints,
  ...imageEndpoints,
  ...hostnameEndpoints,
  ...envVarEndpoints,
  ...apiKeyEndpoints,
  ...storageEndpoints,
  ...uploadEndpoints,
  ...aiGatewayEndpoints,
  ...aiGovernanceEndpoints,
  ...aiBudgetEndpoints(findBudgetWarnings),
  ...aiPolicyEndpoints,
  ...aiUsageEndpoints,
  ...stickySessionEndpoints,
  ...requestLogEndpoints,
  ...runtimeLogEndpoints,
  ...activityEndpoints,
  ...tokenEndpoints,
  ...wellKnownEndpoints,
  ...referenceEndpoints,
  ...clientEndpoints,
]
