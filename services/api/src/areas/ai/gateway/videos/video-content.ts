import type { AiDeps } from '../../deps.ts'
import type { Actor } from '../../../../http/actor.ts'
import { readHeaders } from '../../../../http/endpoint.ts'
import { commonHeaders, type Exchange, type Reply, type Sent } from '../../../../http/exchange.ts'
import { RefusedAddress, UnreachableOrigin } from '@platform/guarded-fetch/guarded-fetch'
import { ClientLeft, ShuttingDown, TookTooLong } from '../abort-reasons.ts'
import type { Provider } from '../providers/model.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import { localVideoContent } from '../local/echo-video.ts'
import { placeCall, placementHeaders } from '../place-call.ts'
import { keyOf } from './poll-videos.ts'
import { EndedEarly, relayBytes } from '../relay.ts'
import { judgeBytes, NoAnswer } from '../providers/judge.ts'
import { LostAnswer, NotConnected, type UpstreamAnswer } from '../providers/upstream-client.ts'
import { failureOfStatus, shuttingDown, upstreamError, upstreamTimeout } from '../providers/upstream-failure.ts'
import { notReady, reachVideoJob, type VideoJob } from './video-jobs.ts'
import { providerHeaders, urlAt } from '../providers/wires.ts'
import { CLIENT_LEFT } from '../with-call.ts'

/** Returns the first value of a header from another origin. */
const one = (value: string | string[] | undefined): string => (Array.isArray(value) ? value[0] : value) ?? ''

/**
 * Requests the bytes of a video: from the provider with its key, or from another host listed in its entry without a key and at
 * public addresses only.
 */
async function askForContent(
  { deps }: Exchange<AiDeps>,
  job: VideoJob,
  provider: Provider,
  key: string,
  signal: AbortSignal,
): Promise<UpstreamAnswer> {
  const { contentUrl, upstreamId } = job
  const url =
    contentUrl === null
      ? urlAt(provider.baseUrl, `/videos/${encodeURIComponent(upstreamId ?? '')}/content`)
      : new URL(contentUrl)
  if (url.origin === provider.baseUrl?.origin)
    return deps.ai.client.ask({ method: 'GET', url, headers: providerHeaders(provider, key), body: null }, signal)
  const headers = { 'accept-encoding': 'identity' }
  const answer = await deps.guardedFetch.fetch({ url: url.href, method: 'GET', headers, redirectsMax: 0, signal })
  return {
    status: answer.status,
    contentType: one(answer.headers['content-type']),
    retryAfterSeconds: undefined,
    isEncoded: answer.headers['content-encoding'] !== undefined,
    body: answer.body,
  }
}

/** Sends the bytes of a video. Throws NotFound for somebody else's job, AiError if there is no video. */
export async function sendVideoContent(
  { exchange, actor }: { exchange: Exchange<AiDeps>; actor: Actor },
  id: string,
): Promise<Sent | Reply> {
  const { deps, c } = exchange
  const { outgoing } = c.env
  const placement = await placeCall({ deps, actor }, readHeaders(placementHeaders, exchange.incoming))
  const job = await reachVideoJob(deps, placement, id)
  if (job.status !== 'completed' || job.expiresAt <= deps.now() || job.upstreamId === null) throw notReady()
  const provider = deps.ai.catalog.providers.get(job.provider)
  if (!provider) throw notReady()
  if (provider.driver === 'local') {
    const { contentType, bytes } = localVideoContent(job)
    return { status: 200, headers: { 'content-type': contentType }, body: bytes }
  }
  const key = await keyOf(deps, job, provider)
  if (key === undefined) throw notReady()
  const route: KeyedRoute = {
    provider,
    upstreamModel: job.upstreamModel,
    weight: 0,
    capParameter: 'max_tokens',
    price: undefined,
    bounds: {},
    key,
    keyOwner: job.keyOwner,
  }
  const controller = new AbortController()
  const abort = (reason: Error) => controller.abort(reason)
  const leave = () => abort(new ClientLeft())
  outgoing.once('close', leave)
  const { calls, timings } = deps.ai
  const over = calls.add(abort)
  const late = setTimeout(() => abort(new TookTooLong()), timings.streamFirstByteMs)
  const total = setTimeout(() => abort(new TookTooLong()), timings.totalMs)
  try {
    const answer = await askForContent(exchange, job, provider, key, controller.signal)
    clearTimeout(late)
    if (answer.status !== 200 || answer.isEncoded) {
      leave()
      if (answer.status === 404 || answer.status === 410) throw upstreamError(route, 'has no video any more')
      const failure = failureOfStatus(answer.status, undefined, route)
      // No other error of the provider is about the caller's request, which named an existing job.
      throw failure.type === 'invalid_request_error' ? upstreamError(route, `answered ${answer.status}`) : failure
    }
    const judged = await judgeBytes({ answer, abort, timings })
    const relayed = { attempt: { provider: provider.id }, abort, signal: controller.signal, route }
    await relayBytes(relayed, judged, outgoing, { headers: commonHeaders(exchange), timings, kind: 'video' })
    return { sent: 200 }
  } catch (error) {
    if (error instanceof EndedEarly)
      return error.failure ? { sent: 200, failure: error.failure } : { sent: CLIENT_LEFT }
    if (outgoing.destroyed) return { sent: CLIENT_LEFT }
    const { reason } = controller.signal as { reason: unknown }
    if (reason instanceof TookTooLong) throw upstreamTimeout(route)
    if (reason instanceof ShuttingDown) throw shuttingDown()
    if (error instanceof NoAnswer) throw upstreamError(route, 'sent an answer that cannot be read')
    const isAway = [NotConnected, LostAnswer, RefusedAddress, UnreachableOrigin].some((kind) => error instanceof kind)
    throw isAway ? upstreamError(route, 'could not be reached') : error
  } finally {
    clearTimeout(late)
    clearTimeout(total)
    outgoing.off('close', leave)
    over()
  }
}
