import type { DeployDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { deploymentEndpoints } from './deployments/routes.ts'
import { artifactEndpoints } from './artifacts/routes.ts'
import { hostnameEndpoints } from './hostnames/routes.ts'

export const deployEndpoints: readonly Endpoint<DeployDeps>[] = [
  ...deploymentEndpoints,
  ...artifactEndpoints,
  ...hostnameEndpoints,
]
