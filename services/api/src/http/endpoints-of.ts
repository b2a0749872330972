import type { Core } from '../core.ts'
import {
  type ActorKind,
  type Endpoint,
  endpoint,
  openEndpoint,
  type OpenSpec,
  type Schema,
  type Spec,
} from './endpoint.ts'
import type { PathParam } from './fields.ts'
import { upstreamEndpoint, type UpstreamSpec } from './upstream-endpoint.ts'

/** Declares operations on the deps of an area. Its `deps.ts` calls this once, so that routes need not name the type. */
export const endpointsOf = <Deps extends Core>() => ({
  endpoint: <
    const A extends ActorKind,
    T,
    P extends Record<string, PathParam> = Record<string, never>,
    Q extends Schema = undefined,
    B extends Schema = undefined,
    H extends Schema = undefined,
    R extends Schema = undefined,
  >(
    spec: Spec<Deps, A, P, Q, B, H, R, T>,
  ): Endpoint<Deps> => endpoint(spec),
  openEndpoint: (spec: OpenSpec<Deps>): Endpoint<Deps> => openEndpoint(spec),
  upstreamEndpoint: <P extends Record<string, PathParam> = Record<string, never>>(
    spec: UpstreamSpec<Deps, P>,
  ): Endpoint<Deps> => upstreamEndpoint(spec),
})
