import type { OverviewDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { quotaEndpoints } from './quotas/routes.ts'
import { organizationOverviewEndpoints } from './overview/routes.ts'
import { referenceEndpoints } from './reference/reference.ts'
import { clientEndpoints } from './reference/clients.ts'

export const overviewEndpoints: readonly Endpoint<OverviewDeps>[] = [
  ...quotaEndpoints,
  ...organizationOverviewEndpoints,
  ...referenceEndpoints,
  ...clientEndpoints,
]
