import type { Listening } from '@platform/service/http-server'
import type { EdgeAddress } from '../area.ts'
import { serveHostnames } from '../areas/edge/serve-hostnames.ts'
import type { Deps } from '../deps.ts'

export const startEdge = (deps: Deps, address: EdgeAddress): Promise<Listening> => serveHostnames(deps, address)
