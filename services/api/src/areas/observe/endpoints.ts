import type { ObserveDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { requestLogEndpoints } from './request-logs/routes.ts'
import { runtimeLogEndpoints } from './runtime-logs/routes.ts'

export const observeEndpoints: readonly Endpoint<ObserveDeps>[] = [...requestLogEndpoints, ...runtimeLogEndpoints]
