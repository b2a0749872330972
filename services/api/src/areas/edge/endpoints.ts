import type { EdgeDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { functionEndpoints } from './functions/routes.ts'
import { cronEndpoints } from './crons/routes.ts'
import { imageEndpoints } from './images/routes.ts'
import { stickySessionEndpoints } from './sticky-sessions/routes.ts'

export const edgeEndpoints: readonly Endpoint<EdgeDeps>[] = [
  ...functionEndpoints,
  ...cronEndpoints,
  ...imageEndpoints,
  ...stickySessionEndpoints,
]
