import { listen, type Listening } from '@platform/service/http-server'
import type { Deps } from '../deps.ts'
import { createDeliveryServer } from '../features/delivery/server.ts'

/** Serves hostnames on a port of their own. */
export const startEdge = (deps: Deps, at: { host: string; port: number }): Promise<Listening> =>
  listen(createDeliveryServer(deps), at.host, at.port)
