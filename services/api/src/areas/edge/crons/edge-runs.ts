import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { and, eq } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import { environments } from '../../tenancy/applications/table.ts'
import type { DeploymentServer } from '../delivery/deployment-server.ts'
import type { TakeCronRun } from '../delivery/edge-listener.ts'
import { openOwnRequest } from '../delivery/own-request.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { openDeploymentVariables } from '../../deploy/deployments/variables.ts'
import type { RunEnd } from './end-run.ts'
import { completeRun, type CronRun, renewRuns, takeRun } from './runs.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'

const HEARTBEAT_MS = 10_000
/** Longer than any Function may be silent. */
const RUN_MS_MAX = 900_000
const SECRET = 'CRON_SECRET'
const STOPPED = 'The edge that made the request was stopped'
const TOO_LONG = `The answer took longer than ${RUN_MS_MAX / 60_000} minutes`

type RunnerDeps = Pick<EdgeDeps, 'db' | 'now' | 'logger' | 'sealer' | 'membership' | 'appsUrl'>

/** Makes cron requests on this edge. */
export interface CronRunner {
  take: TakeCronRun
  /** Waits for runs in progress, and ends those that need longer than drainMs. */
  stop(drainMs: number): Promise<void>
}

/** The request of a run, or a sentence on why it cannot be made. */
async function findRequest({ db, sealer, appsUrl }: RunnerDeps, cronId: string) {
  const [row] = await db
    .select({
      id: deployments.id,
      applicationId: deployments.applicationId,
      status: deployments.status,
      retiredAt: deployments.retiredAt,
      ownLabel: deployments.label,
      sealed: deployments.sealedVariables,
      slug: environments.slug,
      currentId: environments.currentDeploymentId,
      productionLabel: hostnames.label,
      path: deploymentCrons.path,
    })
    .from(deploymentCrons)
    .innerJoin(deployments, eq(deployments.id, deploymentCrons.deploymentId))
    .innerJoin(environments, eq(environments.id, deployments.environmentId))
    .leftJoin(hostnames, and(eq(hostnames.applicationId, deployments.applicationId), eq(hostnames.type, 'APP')))
    .where(eq(deploymentCrons.id, cronId))
  if (row?.status !== 'ACTIVE' || row.retiredAt !== null) return 'The deployment does not answer any more'
  const variables = row.sealed === null ? {} : await openDeploymentVariables({ db, sealer }, row.id)
  const secret = variables[SECRET]
  if (secret !== undefined && !/^[!-~]+$/.test(secret)) return `${SECRET} holds what no header may hold`
  const isProduction = row.slug === 'production' && row.currentId === row.id
  const label = (isProduction ? row.productionLabel : null) ?? row.ownLabel
  const headers: Record<string, string> = {
    host: `${label}.${appsUrl.host}`,
    'user-agent': 'vercel-cron/1.0',
    accept: '*/*',
    ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
  }
  return { deployment: { id: row.id, applicationId: row.applicationId }, label, url: row.path, headers }
}

/**
 * Accepts runs of crons and makes their requests in process, through this edge's own server. Each run is ended here, whether or
 * not the dispatcher still waits for it.
 */
export function openCronRunner(deps: RunnerDeps, server: Pick<DeploymentServer, 'serveOwn'>): CronRunner {
  const { logger, membership } = deps
  const underWay = new Set<Promise<void>>()
  const cuts = new Set<(why: string) => void>()
  let isStopped = false
  const heartbeat = setInterval(() => {
    if (underWay.size === 0) return
    renewRuns(deps, membership.id).catch((error: unknown) =>
      logger.warn({ err: error }, 'the runs of crons were not renewed'),
    )
  }, HEARTBEAT_MS).unref()

  async function request(cronId: string): Promise<RunEnd> {
    const cronRequest = await findRequest(deps, cronId)
    if (typeof cronRequest === 'string') return { error: cronRequest }
    if (isStopped) return { error: STOPPED }
    const { deployment, label, url, headers } = cronRequest
    const { incoming, outgoing, connection } = openOwnRequest({ url, headers }, () => true)
    let error = 'The answer broke off'
    const cut = (why: string): void => {
      error = why
      connection.destroy()
    }
    cuts.add(cut)
    const timer = setTimeout(() => cut(TOO_LONG), RUN_MS_MAX).unref()
    const closed = once(outgoing, 'close')
    server.serveOwn(deployment, incoming, outgoing, label)
    await closed
    clearTimeout(timer)
    cuts.delete(cut)
    const { statusCode: status, headersSent, writableFinished } = outgoing
    if (!writableFinished) return headersSent ? { status, error } : { error }
    return status < 400 ? { status } : { status, error: `The deployment answered ${status}` }
  }

  async function make(run: CronRun): Promise<void> {
    const end = await request(run.cronId).catch((error: unknown): RunEnd => {
      logger.error({ err: error, runId: run.id }, 'the request of a cron could not be made')
      return { error: 'The platform could not make the request' }
    })
    // If this fails, the run's lease lapses and the sweep ends it.
    await completeRun(deps, run, end).catch((error: unknown) =>
      logger.warn({ err: error, runId: run.id }, 'the end of a run was not written down'),
    )
  }

  return {
    async take(runId) {
      const run = isStopped ? undefined : await takeRun(deps, runId, membership.id)
      if (!run) return undefined
      const end = make(run).finally(() => underWay.delete(end))
      underWay.add(end)
      return { end }
    },
    async stop(drainMs) {
      const waited = new AbortController()
      const drained = sleep(drainMs, undefined, { signal: waited.signal }).catch(() => {})
      await Promise.race([drained, Promise.all(underWay)])
      waited.abort()
      isStopped = true
      for (const cut of cuts) cut(STOPPED)
      await Promise.all(underWay)
      clearInterval(heartbeat)
    },
  }
}
