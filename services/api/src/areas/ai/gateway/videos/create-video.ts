import { checkVideoRequest } from '@platform/ai-protocols/video-request'
import { AiError } from '@platform/errors/ai-error'
import { Conflict } from '@platform/errors/api-error'
import { newIdAt } from '@platform/runtime/new-id'
import { eq } from 'drizzle-orm'
import type { Actor } from '../../../../http/actor.ts'
import type { AiDeps } from '../../deps.ts'
import type { Exchange, Reply, Sent } from '../../../../http/exchange.ts'
import { createOnce, forgetOnce, readIdempotencyKey } from '../../../../http/idempotency.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import { dispatch } from '../providers/dispatch.ts'
import { holdCall } from '../holds/hold-call.ts'
import type { InferenceRequest } from '../operations.ts'
import { FIRST_POLL_MS } from './poll-videos.ts'
import { readJsonRequest } from '../requests/read-inference.ts'
import { routesFor } from '../routes-for.ts'
import { recordedCode } from '../providers/upstream-failure.ts'
import { aiVideoJobs } from '../table.ts'
import { shownVideoJob, VIDEO_KEPT_MS, type VideoJob } from './video-jobs.ts'
import { readUpstreamJob } from './video-status.ts'
import { videoWire } from '../providers/wires.ts'
import { type Admitted, withCall } from '../with-call.ts'

/** If no provider has accepted a job after this long, its process has died. */
const DISPATCH_MS_MAX = 1_900_000

const readVideo = readJsonRequest('videos', checkVideoRequest, () => 'whole')

/** Returns the seconds, rounded up, from `duration` and `seconds`: the longer if they differ. */
function durationOf({ body }: InferenceRequest): number | null {
  const seconds = [body['duration'], body['seconds']].filter((value) => value != null).map(Number)
  return seconds.length === 0 ? null : Math.ceil(Math.max(...seconds))
}

/** Creates the job of a call, before any provider has it. */
function newJob({ call, placement, request }: Admitted, route: KeyedRoute): VideoJob {
  const createdAt = call.startedAt
  const { organizationId, applicationId } = placement
  return {
    id: newIdAt(createdAt),
    organizationId,
    applicationId,
    eventId: call.exchange.requestId,
    model: request.model,
    provider: route.provider.id,
    upstreamModel: route.upstreamModel,
    keyOwner: route.keyOwner,
    upstreamId: null,
    status: 'pending',
    duration: durationOf(request),
    contentUrl: null,
    errorCode: null,
    errorMessage: null,
    createdAt,
    pollAt: new Date(createdAt.getTime() + DISPATCH_MS_MAX),
    polls: 0,
    expiresAt: new Date(createdAt.getTime() + VIDEO_KEPT_MS),
    completedAt: null,
  }
}

/** Submits the job to a provider, and records which one has it. */
async function startJob(admitted: Admitted, routes: readonly KeyedRoute[], job: VideoJob): Promise<void> {
  const { call, placement, request } = admitted
  const { deps } = call.exchange
  const dispatching = {
    organizationId: placement.organizationId,
    signal: call.signal,
    isWaitedFor: call.isWaitedFor,
    answer: 'whole' as const,
    // A retry might make, and charge for, a second video.
    mayRepeatLost: false,
    attempts: call.attempts,
    onAsked: call.noteAsked,
    onLost: call.lose,
    requestBytes: () => 0,
  }
  const served = await dispatch(deps.ai, dispatching, routes, (route) => [videoWire(request, route)])
  admitted.releaseBody()
  served.release()
  const { route, judged } = served
  if (judged.kind !== 'whole') throw new Error('A job is a document')
  // From here on the provider has the job.
  call.lose(route)
  const upstream = readUpstreamJob(JSON.parse(judged.document.bytes.toString('utf8')), route.provider)
  await deps.db
    .update(aiVideoJobs)
    .set({
      provider: route.provider.id,
      upstreamModel: route.upstreamModel,
      keyOwner: route.keyOwner,
      upstreamId: upstream.id,
      duration: upstream.duration === undefined ? job.duration : Math.ceil(upstream.duration),
      pollAt: new Date(deps.now().getTime() + FIRST_POLL_MS),
    })
    .where(eq(aiVideoJobs.id, job.id))
}

/** The client left, or the process stopped. */
const interrupted = { code: 'interrupted', message: 'The call ended before the provider had answered' }

/** Marks a job that a provider may have all the same: a retry under the same key gets this error, and buys no second video. */
async function loseJob({ db, now }: AiDeps, { id }: VideoJob, error: unknown): Promise<void> {
  const code = error instanceof AiError ? recordedCode(error) : interrupted.code
  const { message } = error instanceof AiError ? error : interrupted
  await db
    .update(aiVideoJobs)
    .set({ status: 'failed', errorCode: code, errorMessage: message, pollAt: null, completedAt: now() })
    .where(eq(aiVideoJobs.id, id))
}

/** Throws Conflict if a job is just being submitted to a provider, or none accepted it just now. */
async function requireStarted({ db }: AiDeps, id: string): Promise<void> {
  const [job] = await db
    .select({ status: aiVideoJobs.status, upstreamId: aiVideoJobs.upstreamId })
    .from(aiVideoJobs)
    .where(eq(aiVideoJobs.id, id))
  if (!job || (job.status === 'pending' && job.upstreamId === null))
    throw new Conflict('The video of this Idempotency-Key is being started')
}

/** Starts a video: 202 with a job, which the worker polls. Under an Idempotency-Key it is started once. */
export function createVideo(on: { exchange: Exchange<AiDeps>; actor: Actor }): Promise<Sent | Reply> {
  const { exchange, actor } = on
  const { deps } = exchange
  return withCall(on, 'videos', readVideo, async (admitted) => {
    const { call, placement, request } = admitted
    const key = readIdempotencyKey(exchange.incoming.headers['idempotency-key'] as string | undefined)
    const callRoutes = await routesFor(call, placement, request)
    const [first] = callRoutes.routes
    if (!first) throw new Error('No route')
    const job = newJob(admitted, first)
    const insert = async (db: AiDeps['db']) => {
      await db.insert(aiVideoJobs).values(job)
      return JSON.stringify(shownVideoJob(deps, job))
    }
    const content = { body: request.body, placement: [placement.organizationId, placement.applicationId] }
    const creation =
      key === undefined ? undefined : { actor, operation: 'createVideo', key, asked: content, isAnswerKept: true }
    const { answer, isRepeat } = creation
      ? await createOnce(deps, creation, insert)
      : { answer: await insert(deps.db), isRepeat: false }
    const headers = { 'content-type': 'application/json; charset=UTF-8' }
    if (isRepeat) {
      await requireStarted(deps, (JSON.parse(answer) as { id: string }).id)
      call.settle({ status: 'success', statusCode: 202 })
      return { status: 202, headers: { ...headers, 'idempotency-replayed': 'true' }, body: answer }
    }
    try {
      const { routes } = await holdCall(call, placement, { ...callRoutes, keptMs: VIDEO_KEPT_MS })
      await startJob({ ...admitted, request: callRoutes.request }, routes, job)
    } catch (error) {
      if (call.isLost && creation) await loseJob(deps, job, error)
      else {
        await deps.db.delete(aiVideoJobs).where(eq(aiVideoJobs.id, job.id))
        if (creation) await forgetOnce(deps, creation)
      }
      throw error
    }
    call.settle({ status: 'pending', statusCode: 202 })
    // The end of the job settles the event, so the event has to be stored first.
    await deps.usage.flush()
    return { status: 202, headers, body: answer }
  })
}
