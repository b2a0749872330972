import { clusterEndpoints } from './areas/cluster/endpoints.ts'
import { tenancyEndpoints } from './areas/tenancy/endpoints.ts'
import { credentialsEndpoints } from './areas/credentials/endpoints.ts'
import { aiEndpoints } from './areas/ai/endpoints.ts'
import { storageEndpoints } from './areas/storage/endpoints.ts'
import { deployEndpoints } from './areas/deploy/endpoints.ts'
import { observeEndpoints } from './areas/observe/endpoints.ts'
import { edgeEndpoints } from './areas/edge/endpoints.ts'
import { overviewEndpoints } from './areas/overview/endpoints.ts'
import type { Operation } from './http/endpoint.ts'

/** The whole API. Start here. */
export const endpoints: readonly Operation[] = [
  ...clusterEndpoints,
  ...tenancyEndpoints,
  ...credentialsEndpoints,
  ...aiEndpoints,
  ...storageEndpoints,
  ...deployEndpoints,
  ...observeEndpoints,
  ...edgeEndpoints,
  ...overviewEndpoints,
]
