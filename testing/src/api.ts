// Named by path: the API's own tests use this package, so by name the workspace would have a cycle.
import { compose } from '../../services/api/src/compose.ts'
import type { Opened as OpenedArea } from '../../services/api/src/area.ts'
import type { Config } from '../../services/api/src/config.ts'
import type { Core } from '../../services/api/src/core.ts'
import { startApi as startApiRole } from '../../services/api/src/roles/api.ts'
import { startConsole as startConsoleRole } from '../../services/api/src/roles/console.ts'
import { startEdge as startEdgeRole } from '../../services/api/src/roles/edge.ts'
import { startWorker as startWorkerRole } from '../../services/api/src/roles/worker.ts'

export type ApiOverrides = NonNullable<Parameters<typeof compose>[1]>
type Running = Awaited<ReturnType<typeof compose>>['deps']
type Opened = Running['opened']

/** A function of an area's deps, for each of the areas: what can be given to all of these has the members of all deps. */
type DepsOf<Name extends keyof Opened> = Name extends keyof Opened ? (each: Opened[Name]['deps']) => void : never
type AllDeps = DepsOf<keyof Opened> extends (each: infer Deps) => void ? Deps : never

/** What no part of the API has: the deps of all areas in one, for tests that look at things from below. */
export type ApiDeps = AllDeps &
  Opened['cluster']['ports'] &
  Opened['observe']['ports'] & {
    /** What starts Functions on edges before a deployment is current. */
    edgeWarmer: Opened['edge']['ports']['trials']
  }

const opened = new WeakMap<ApiDeps, { running: Running; config: Config }>()
function openedAs(api: ApiDeps): { running: Running; config: Config } {
  const found = opened.get(api)
  if (!found) throw new Error('These deps are no opened API, but a copy')
  return found
}

/** Composes the API. The roles below start on the deps that it returns. */
export async function composeApi(
  config: Config,
  overrides: ApiOverrides = {},
): Promise<{ deps: ApiDeps; close(): Promise<void> }> {
  const { deps: running, close } = await compose(config, overrides)
  const { cluster, tenancy, credentials, ai, storage, deploy, observe, edge, overview } = running.opened
  const deps: ApiDeps = {
    ...cluster.ports,
    ...observe.ports,
    ...tenancy.deps,
    ...credentials.deps,
    ...ai.deps,
    ...storage.deps,
    ...deploy.deps,
    ...observe.deps,
    ...edge.deps,
    ...overview.deps,
    edgeWarmer: edge.ports.trials,
  }
  opened.set(deps, { running, config })
  return { deps, close }
}

type Rest<Start extends (running: never, ...rest: never) => unknown> =
  Parameters<Start> extends [unknown, ...infer More] ? More : never

export const startApi = (api: ApiDeps, ...rest: Rest<typeof startApiRole>) =>
  startApiRole(openedAs(api).running, ...rest)
export const startConsole = (api: ApiDeps, ...rest: Rest<typeof startConsoleRole>) =>
  startConsoleRole(openedAs(api).running, ...rest)
export const startEdge = (api: ApiDeps, ...rest: Rest<typeof startEdgeRole>) =>
  startEdgeRole(openedAs(api).running, ...rest)

/** For how long the worker keeps what is deleted or old, by the API's configuration. */
interface Retention {
  trashDays: number
  auditDays: number
  deploymentDays: number
  usageMonths: number
}

/** Starts the worker. retention: what the test counts on. Throws if the API is configured otherwise. */
export function startWorker(api: ApiDeps, everyMs: number, retention?: Retention) {
  const { running, config } = openedAs(api)
  const configured: Retention = {
    trashDays: config.TRASH_RETENTION_DAYS,
    auditDays: config.AUDIT_RETENTION_DAYS,
    deploymentDays: config.DEPLOYMENT_RETENTION_DAYS,
    usageMonths: config.AI_USAGE_RETENTION_MONTHS,
  }
  if (JSON.stringify(retention ?? configured) !== JSON.stringify(configured))
    throw new Error(`The API keeps things for ${JSON.stringify(configured)}`)
  return startWorkerRole(running, everyMs)
}

/** Every job of the worker, from the top area down, on the API's deps with another clock. */
export function jobsAt(api: ApiDeps, now: () => Date): { name: string; run: () => Promise<void> }[] {
  const of = <Deps extends Core>({ deps, jobs = [] }: OpenedArea<Deps>) =>
    jobs.map(({ name, run }) => ({ name, run: () => run({ ...deps, now }) }))
  const { core, cluster, tenancy, credentials, ai, storage, deploy, observe, edge, overview } =
    openedAs(api).running.opened
  return [
    of(overview),
    of(edge),
    of(observe),
    of(deploy),
    of(storage),
    of(ai),
    of(credentials),
    of(tenancy),
    of(cluster),
    of(core),
  ].flat()
}
