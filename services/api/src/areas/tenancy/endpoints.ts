import type { TenancyDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { organizationEndpoints } from './organizations/routes.ts'
import { invitationEndpoints } from './invitations/routes.ts'
import { productEndpoints } from './products/routes.ts'
import { applicationEndpoints } from './applications/routes.ts'
import { envVarEndpoints } from './env-vars/routes.ts'
import { activityEndpoints } from './activity/routes.ts'

export const tenancyEndpoints: readonly Endpoint<TenancyDeps>[] = [
  ...organizationEndpoints,
  ...invitationEndpoints,
  ...productEndpoints,
  ...applicationEndpoints,
  ...envVarEndpoints,
  ...activityEndpoints,
]
