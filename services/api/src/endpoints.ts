import { activityEndpoints } from './features/activity/routes.ts'
import { findBudgetWarnings } from './features/ai-gateway/holds/budget-warnings.ts'
import { aiGatewayEndpoints } from './features/ai-gateway/routes.ts'
import { aiGovernanceEndpoints } from './features/ai-governance/routes.ts'
import { aiUsageEndpoints } from './features/ai-governance/usage/routes.ts'
import { aiPolicyEndpoints } from './features/ai-governance/policies/routes.ts'
import { aiBudgetEndpoints } from './features/ai-governance/budgets/routes.ts'
import { apiKeyEndpoints } from './features/api-keys/routes.ts'
import { applicationEndpoints } from './features/applications/routes.ts'
import { artifactEndpoints } from './features/artifacts/routes.ts'
import { deploymentEndpoints } from './features/deployments/routes.ts'
import { clientEndpoints } from './features/documents/clients.ts'
import { referenceEndpoints } from './features/documents/reference.ts'
import { wellKnownEndpoints } from './features/documents/well-known.ts'
import { envVarEndpoints } from './features/env-vars/routes.ts'
import { cronEndpoints } from './features/crons/routes.ts'
import { functionEndpoints } from './features/functions/routes.ts'
import { hostnameEndpoints } from './features/hostnames/routes.ts'
import { imageEndpoints } from './features/images/routes.ts'
import { organizationEndpoints } from './features/organizations/routes.ts'
import { overviewEndpoints } from './features/overview/routes.ts'
import { productEndpoints } from './features/products/routes.ts'
import { quotaEndpoints } from './features/quotas/routes.ts'
import { requestLogEndpoints } from './features/request-logs/routes.ts'
import { runtimeLogEndpoints } from './features/runtime-logs/routes.ts'
import { stickySessionEndpoints } from './features/sticky-sessions/routes.ts'
import { storageEndpoints } from './features/storage/routes.ts'
import { uploadEndpoints } from './features/uploads/routes.ts'
import { tokenEndpoints } from './features/tokens/routes.ts'
import type { Endpoint } from './http/endpoint.ts'

/** The whole API. Start here. */
export const endpoints: readonly Endpoint[] = [
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
