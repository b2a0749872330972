import type { RequestListener } from 'node:http'
import type { Checks } from '@platform/service/dependencies'
import type { Listening, Refusal } from '@platform/service/http-server'
import type { Part } from '@platform/service/run-service'
import type { Core } from './core.ts'
import { bindEndpoint, type BoundEndpoint } from './http/app.ts'
import type { Endpoint } from './http/endpoint.ts'

/** A job of the worker. Safe to repeat, and to run in two processes at once. */
interface Job<Deps extends Core> {
  /** As logs and metrics name it; no two areas have one name. */
  name: string
  /**
   * How often it runs, in a round of its own with the area's other jobs of this interval. Absent: in the common round, every
   * JOBS_EVERY_MS, from the top area down.
   */
  everyMs?: number
  run: (deps: Deps) => Promise<void>
}

/** Rows of an area that hold what MASTER_KEYS seal. */
interface Sealed<Deps extends Core> {
  /** As `keys reencrypt` names it. */
  name: string
  /** Seals everything under the first master key. Returns how many rows were sealed by another. */
  reseal: (deps: Deps) => Promise<number>
}

/** Where a process listens. Ports: 0 for any. */
export interface Address {
  host: string
  port: number
}

export interface EdgeAddress extends Address {
  /** For the other edges. */
  internalPort?: number
  /** Where they reach it; undefined: on this machine only. */
  internalUrl?: string | undefined
}

/** What answers requests that are no operations, where it is asked. */
export type Listener =
  /** Below a prefix of the API's paths. */
  | { on: 'api'; prefix: string; listener: RequestListener }
  /** On hosts of its own at the API's port: a proxy sends them there. */
  | { on: 'host'; isFor: (host: string) => boolean; listener: RequestListener }
  /** On a port of its own, of the process that serves the API. */
  | { on: 's3'; listener: RequestListener; refusal: Refusal }
  /** On the edge's ports. */
  | { on: 'hostnames'; start: (address: EdgeAddress) => Promise<Listening> }
  /** On the console's port. folder: of its files, absolute. clientId: the OAuth client that its page is. */
  | { on: 'console'; create: (site: { folder: string; clientId: string }) => RequestListener }

/** Streams and calls that outlive the request they began with. */
interface Streams {
  /** Refuses new ones: the process is about to stop. Safe to repeat. */
  refuseNew?: () => void
  /** Ends those under way, at once or so that they are over after drainMs. Called before connections are cut. */
  end?: (drainMs: number) => void
  /** Resolves when the last one is over. */
  over?: () => Promise<void>
}

/** An area that has opened what it uses. Its tables and commands are listed beside it: both are known before anything opens. */
export interface Opened<Deps extends Core, Ports = object> {
  /** What its endpoints, jobs, sealed rows and commands get; its listeners and workers close over it. */
  deps: Deps
  endpoints: readonly Endpoint<Deps>[]
  /** What areas above may use of it. */
  ports: Ports
  jobs?: readonly Job<Deps>[]
  sealed?: readonly Sealed<Deps>[]
  listeners?: readonly Listener[]
  /** What a worker runs beside its jobs. */
  workers?: readonly (() => Part)[]
  streams?: Streams
  checks?: Checks
  /** Reads the operator's files again. */
  reload?: () => Promise<void>
  /** Says in the log what this machine can do for tenants' code. */
  report?: () => Promise<void>
  close?: () => Promise<void>
}

/** What the roles see of an open area: everything is bound to its deps, of which they see none. */
export interface Area extends Pick<Opened<Core>, 'listeners' | 'workers' | 'streams' | 'checks' | 'reload' | 'report'> {
  endpoints: readonly BoundEndpoint[]
  jobs: readonly { name: string; everyMs: number | undefined; run: () => Promise<void> }[]
  sealed: readonly { name: string; reseal: () => Promise<number> }[]
}

/** What roles are started with. */
export interface Running {
  core: Core
  /** Lowest first. */
  areas: readonly Area[]
}

export const listenersOn = <On extends Listener['on']>({ areas }: Running, on: On) =>
  areas
    .flatMap(({ listeners = [] }) => listeners)
    .filter((listener): listener is Extract<Listener, { on: On }> => listener.on === on)

/** Where one area listens alone. Throws if none does. */
export function listenerOn<On extends Listener['on']>(running: Running, on: On): Extract<Listener, { on: On }> {
  const [listener] = listenersOn(running, on)
  if (!listener) throw new Error(`No area listens on ${on}`)
  return listener
}

export function bindArea<Deps extends Core>({
  deps,
  endpoints,
  jobs = [],
  sealed = [],
  ...others
}: Opened<Deps>): Area {
  return {
    ...others,
    endpoints: endpoints.map((endpoint) => bindEndpoint(deps, endpoint)),
    jobs: jobs.map(({ name, everyMs, run }) => ({ name, everyMs, run: () => run(deps) })),
    sealed: sealed.map(({ name, reseal }) => ({ name, reseal: () => reseal(deps) })),
  }
}
