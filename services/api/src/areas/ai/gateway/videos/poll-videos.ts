import { noUsage } from '@platform/ai-protocols/usage'
import { and, eq, inArray, lte, notInArray, sql } from 'drizzle-orm'
import type { Db } from '@platform/runtime/database'
import type { AiDeps } from '../../deps.ts'
import { costOf } from '../call.ts'
import { findProviderKeys } from '../../governance/provider-keys.ts'
import { releaseHolds } from '../../governance/budgets/release-holds.ts'
import { aiHolds, aiUsageEvents } from '../../governance/table.ts'
import type { Provider, Route } from '../providers/model.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import { aiVideoJobs } from '../table.ts'
import { isOpen, type VideoJob } from './video-jobs.ts'
import { readUpstreamJob, type UpstreamJob } from './video-status.ts'
import { NotConnected } from '../providers/upstream-client.ts'
import { providerHeaders, urlAt } from '../providers/wires.ts'

export const FIRST_POLL_MS = 5_000
const POLL_MS_MAX = 60_000
const POLLED_AT_ONCE = 20
const ANSWER_BYTES_MAX = 1_048_576

type PollDeps = Pick<AiDeps, 'db' | 'now' | 'ai' | 'sealer' | 'logger'>

/** The outcome of a job. */
interface Ending {
  status: 'completed' | 'failed' | 'cancelled' | 'expired'
  contentUrl?: string | undefined
  duration?: number | undefined
  error?: { code: string; message: string }
}

/** Returns the key that the job was submitted with; undefined if it no longer exists. */
export async function keyOf(deps: PollDeps, job: VideoJob, provider: Provider): Promise<string | undefined> {
  if (job.keyOwner === 'local') return ''
  if (job.keyOwner === 'operator') return provider.operatorKey
  return (await findProviderKeys(deps, job.organizationId)).get(provider.id)
}

async function readAnswer(body: AsyncIterable<Uint8Array>): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > ANSWER_BYTES_MAX) throw new TypeError('Too large')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
}

/** Asks a provider about a job; undefined if the answer is not usable. */
async function ask(deps: PollDeps, job: VideoJob, provider: Provider): Promise<UpstreamJob | Ending | undefined> {
  if (job.upstreamId === null) {
    const error = { code: 'interrupted', message: 'The server stopped while it handed the job over' }
    return { status: 'failed', error }
  }
  if (provider.driver === 'local') return { status: 'completed', duration: job.duration ?? undefined }
  const key = await keyOf(deps, job, provider)
  if (key === undefined) return undefined
  const url = urlAt(provider.baseUrl, `/videos/${encodeURIComponent(job.upstreamId)}`)
  const controller = new AbortController()
  const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(deps.ai.timings.pollMs)])
  const answer = await deps.ai.client.ask(
    { method: 'GET', url, headers: providerHeaders(provider, key), body: null },
    signal,
  )
  if (answer.status === 200) return readUpstreamJob(await readAnswer(answer.body), provider)
  controller.abort()
  return answer.status === 404
    ? { status: 'failed', error: { code: 'video_not_found', message: 'The provider does not know the job any more' } }
    : undefined
}

function endingOf(outcome: UpstreamJob | Ending, { provider }: VideoJob): Ending | undefined {
  const { status } = outcome
  if (status === 'pending' || status === 'in_progress') return undefined
  if (!('id' in outcome)) return outcome
  const { contentUrl, duration } = outcome
  if (status === 'completed') return { status, contentUrl, duration }
  return { status, error: { code: `video_${status}`, message: `The provider ${provider} ended the job: ${status}` } }
}

const routeOf = ({ ai }: PollDeps, job: VideoJob, provider: Provider): KeyedRoute | undefined => {
  const routes: readonly Route[] = ai.catalog.models.get(job.model)?.routes ?? []
  const route = routes.find((each) => each.provider.id === provider.id && each.upstreamModel === job.upstreamModel)
  return route && { ...route, key: '', keyOwner: job.keyOwner }
}

/** Ends a job and settles its event, exactly once: does nothing if the job has already ended. */
async function endJob(deps: PollDeps, job: VideoJob, provider: Provider | undefined, ending: Ending): Promise<void> {
  const { db, now, ai } = deps
  const completedAt = now()
  const isCompleted = ending.status === 'completed'
  const seconds = ending.duration ?? job.duration ?? 0
  // If the process died while submitting the job, the hold stays until it expires: the provider may have the job.
  const isHandedOver = job.upstreamId !== null
  await db.transaction(async (tx) => {
    const ended = await tx
      .update(aiVideoJobs)
      .set({
        status: ending.status,
        contentUrl: ending.contentUrl ?? null,
        duration: ending.duration === undefined ? job.duration : Math.ceil(ending.duration),
        errorCode: ending.error?.code ?? null,
        errorMessage: ending.error?.message ?? null,
        pollAt: null,
        completedAt,
      })
      .where(and(eq(aiVideoJobs.id, job.id), isOpen))
      .returning({ id: aiVideoJobs.id })
    if (ended.length === 0) return
    const route = provider && isCompleted ? routeOf(deps, job, provider) : undefined
    const cost = costOf(ai.prices, route, noUsage, job.createdAt, seconds)
    const held = isHandedOver ? await releaseHold(tx, job) : undefined
    // A provider that lost the job or did not finish in time may charge for it anyway; and a route that is gone has no price.
    const isLost = ending.status === 'expired' || ending.error?.code === 'video_not_found'
    const isUnknown = isLost || (isCompleted && !route)
    await tx
      .update(aiUsageEvents)
      .set({
        ...cost,
        status: isCompleted ? 'success' : ending.status === 'cancelled' ? 'cancelled' : 'error',
        errorCode: ending.error?.code ?? null,
        errorType: ending.error ? 'api_error' : null,
        usageSource: isCompleted ? 'provider' : 'none',
        inputTokens: 0,
        outputTokens: 0,
        countedRequests: 1,
        countedTokens: 0,
        countedCostNanos: isUnknown && held !== undefined ? held : cost.providerCostNanos,
        latencyMs: Math.min(completedAt.getTime() - job.createdAt.getTime(), 2_147_483_647),
        completedAt,
        updatedAt: completedAt,
      })
      .where(eq(aiUsageEvents.id, job.eventId))
  })
}

/** Releases the hold of a job's call. Returns its cost, in nano-USD; undefined if there is no hold. */
async function releaseHold(tx: Pick<Db, 'select' | 'execute'>, job: VideoJob): Promise<bigint | undefined> {
  const [hold] = await tx.select().from(aiHolds).where(eq(aiHolds.id, job.eventId))
  if (!hold) return undefined
  // The event is missing if the process died just after the provider accepted the job.
  const events = await releaseHolds(tx, [hold], [hold.id])
  await tx.execute(sql`insert into ${aiUsageEvents}
    select * from json_populate_recordset(null::${aiUsageEvents}, ${JSON.stringify(events)}::json) on conflict (id) do nothing`)
  return hold.costNanos
}

/** Polls a job. onHang: called with a provider that did not answer in time, or could not be reached. */
async function followJob(deps: PollDeps, job: VideoJob, onHang: (provider: string) => void): Promise<void> {
  const provider = deps.ai.catalog.providers.get(job.provider)
  if (job.expiresAt <= deps.now()) {
    const error = { code: 'video_expired', message: 'The provider did not finish in time' }
    return endJob(deps, job, provider, { status: 'expired', error })
  }
  if (!provider) return
  try {
    const outcome = await ask(deps, job, provider)
    if (outcome === undefined) return
    const ending = endingOf(outcome, job)
    if (ending) return await endJob(deps, job, provider, ending)
    if (outcome.status !== job.status)
      await deps.db
        .update(aiVideoJobs)
        .set({ status: outcome.status })
        .where(and(eq(aiVideoJobs.id, job.id), isOpen))
  } catch (error) {
    if (error instanceof NotConnected || (error as Error).name === 'TimeoutError') onHang(provider.id)
    // The error message of the provider or its answer may contain confidential data, so only the name is logged.
    deps.logger.warn(
      { videoId: job.id, provider: provider.id, error: (error as Error).name },
      'a video could not be looked at',
    )
  }
}

/**
 * Polls the jobs that are due, each at growing intervals, and settles those that ended. A provider that hangs is not asked again in
 * this round, so that jobs of other providers do not wait for it. Safe to run in several processes.
 */
export async function pollVideos(deps: PollDeps): Promise<void> {
  const { db, now } = deps
  const hanging = new Set<string>()
  const onHang = (provider: string) => void hanging.add(provider)
  for (;;) {
    const due = db
      .select({ id: aiVideoJobs.id })
      .from(aiVideoJobs)
      .where(and(lte(aiVideoJobs.pollAt, now()), notInArray(aiVideoJobs.provider, [...hanging])))
      .orderBy(aiVideoJobs.pollAt)
      .limit(POLLED_AT_ONCE)
      .for('update', { skipLocked: true })
    const wait = sql`make_interval(secs => least(${FIRST_POLL_MS} * power(1.5, ${aiVideoJobs.polls} + 1), ${POLL_MS_MAX}) / 1000.0)`
    const jobs = await db
      .update(aiVideoJobs)
      .set({ pollAt: sql`${now().toISOString()}::timestamptz + ${wait}`, polls: sql`${aiVideoJobs.polls} + 1` })
      .where(inArray(aiVideoJobs.id, due))
      .returning()
    await Promise.all(jobs.map((job) => followJob(deps, job, onHang)))
    if (jobs.length < POLLED_AT_ONCE) return
  }
}
