import type { AiDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { findBudgetWarnings } from './gateway/holds/budget-warnings.ts'
import { aiGatewayEndpoints } from './gateway/routes.ts'
import { aiGovernanceEndpoints } from './governance/routes.ts'
import { aiBudgetEndpoints } from './governance/budgets/routes.ts'
import { aiPolicyEndpoints } from './governance/policies/routes.ts'
import { aiUsageEndpoints } from './governance/usage/routes.ts'

export const aiEndpoints: readonly Endpoint<AiDeps>[] = [
  ...aiGatewayEndpoints,
  ...aiGovernanceEndpoints,
  ...aiBudgetEndpoints(findBudgetWarnings),
  ...aiPolicyEndpoints,
  ...aiUsageEndpoints,
]
