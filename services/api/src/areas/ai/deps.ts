import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { AiGateway } from './gateway/gateway.ts'
import type { UsageRecorder } from './governance/record-usage.ts'

export interface AiDeps extends Core {
  /** Models and their providers. */
  ai: AiGateway
  /** Records the usage of model calls. */
  usage: UsageRecorder
}

export const { endpoint, upstreamEndpoint } = endpointsOf<AiDeps>()
