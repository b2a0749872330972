import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { RequestFeed } from './request-logs/follow.ts'
import type { RequestLogWriter } from './request-logs/write.ts'
import type { RuntimeLogFeed } from './runtime-logs/feed.ts'
import type { RuntimeLogWriter } from './runtime-logs/write.ts'

export interface ObserveDeps extends Core {
  requestFeed: RequestFeed
  runtimeLogFeed: RuntimeLogFeed
}

export interface ObservePorts {
  requestLog: RequestLogWriter
  runtimeLog: RuntimeLogWriter
}

export const { endpoint } = endpointsOf<ObserveDeps>()
