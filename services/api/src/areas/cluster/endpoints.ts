import type { ClusterDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'

export const clusterEndpoints: readonly Endpoint<ClusterDeps>[] = []
