import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import { environments } from '../../tenancy/applications/table.ts'
import { deploymentFunctions } from '../../deploy/deployments/table.ts'
import type { Membership } from '../../cluster/edges/membership.ts'
import { edges } from '../../cluster/edges/table.ts'
import type { EnvironmentChange, Trials } from '../../deploy/deployments/trials.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'
import type { Functions } from './functions.ts'
import { functionSlots } from './table.ts'

/** Payload: a `WarmRequest`. */
const WARM_CHANNEL = 'edge_warm'
/** Payload: a `WarmAnswer`. */
const WARMED_CHANNEL = 'edge_warmed'
/** Postgres limits a payload to 8,000 bytes. */
const PATHS_BYTES_MAX = 7_000

interface WarmRequest {
  id: string
  edgeId: string
  deploymentId: string
  /** Paths of Functions. */
  paths: string[]
}

interface WarmAnswer {
  /** Id of the request. */
  id: string
  /** False: some of the Functions failed to start. */
  isReady: boolean
}

interface Options {
  db: Db
  notifications: Notifications
  membership: Membership
  functions: Pick<Functions, 'start'>
  logger: Logger
}

async function requestsFor(db: Db, { environmentId, deploymentId, seq }: EnvironmentChange): Promise<WarmRequest[]> {
  const rows = await db.execute<{ edge_id: string; path: string }>(sql`
    select s.process_id as edge_id, after.path
    from ${environments} e
    join ${deploymentFunctions} before on before.deployment_id = e.current_deployment_id
    join ${deploymentFunctions} after on after.deployment_id = ${deploymentId} and after.path = before.path
    join ${functionSlots} s on s.function_id = before.id and s.slots > 0
    join ${edges} g on g.id = s.process_id and g.lease_until > clock_timestamp()
    where e.id = ${environmentId} and e.current_deployment_id <> ${deploymentId} and e.current_seq < ${seq ?? null}::bigint is not false
    order by after.path`)
  return [...Map.groupBy(rows, (row) => row.edge_id)].map(([edgeId, named]) => ({
    id: newId(),
    edgeId,
    deploymentId,
    paths: fitting(named.map(({ path }) => path)),
  }))
}

/** As many paths as fit into a payload. */
function fitting(paths: readonly string[]): string[] {
  const bytes = (upTo: number): number => Buffer.byteLength(JSON.stringify(paths.slice(0, upTo)))
  let count = paths.length
  while (bytes(count) > PATHS_BYTES_MAX) count -= 1
  return paths.slice(0, count)
}

export function openEdgeWarmer({ db, notifications, membership, functions, logger }: Options): Pick<Trials, 'warm'> {
  const waiting = new Map<string, (isReady: boolean) => void>()

  async function startAll({ id, deploymentId, paths }: WarmRequest): Promise<void> {
    const answer: WarmAnswer = { id, isReady: true }
    for (const path of paths) {
      await functions.start(deploymentId, functionIdOf(deploymentId, path)).catch(() => {
        // The first request reports the reason.
        answer.isReady = false
      })
    }
    await db.execute(sql`select pg_notify(${WARMED_CHANNEL}, ${JSON.stringify(answer)})`)
  }

  notifications.listen(WARM_CHANNEL, {
    onMessage(payload) {
      const request = JSON.parse(payload) as WarmRequest
      if (!membership.hasJoined || request.edgeId !== membership.id) return
      startAll(request).catch((error: unknown) =>
        logger.warn({ err: error }, 'nobody was told that Functions are warm'),
      )
    },
    onListening() {},
  })
  notifications.listen(WARMED_CHANNEL, {
    onMessage(payload) {
      const { id, isReady } = JSON.parse(payload) as WarmAnswer
      waiting.get(id)?.(isReady)
    },
    onListening() {},
  })

  async function ask(each: WarmRequest, limitMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const late = setTimeout(() => resolve(false), limitMs)
    waiting.set(each.id, resolve)
    try {
      await db.execute(sql`select pg_notify(${WARM_CHANNEL}, ${JSON.stringify(each)})`)
      return await promise
    } finally {
      clearTimeout(late)
      waiting.delete(each.id)
    }
  }

  return {
    async warm(change, limitMs) {
      try {
        const requests = await requestsFor(db, change)
        const outcomes = await Promise.all(requests.map((each) => ask(each, limitMs)))
        return { asked: outcomes.length, ready: outcomes.filter(Boolean).length }
      } catch (error) {
        logger.warn({ err: error }, 'a deployment becomes current before it is warm')
        return { asked: 0, ready: 0 }
      }
    },
  }
}
