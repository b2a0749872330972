import type { AiDeps } from '../deps.ts'
import type { Actor } from '../../../http/actor.ts'
import { commonHeaders, type Exchange, type Reply, type Sent } from '../../../http/exchange.ts'
import type { Call } from './call.ts'
import { type EventStream, openEventStream } from './event-stream.ts'
import { holdCall } from './holds/hold-call.ts'
import type { InferenceRequest } from './operations.ts'
import { dispatch, type Served } from './providers/dispatch.ts'
import { protocolOf, wiresFor } from './providers/wires.ts'
import { EndedEarly, type KeptAnswer, relayBytes, relayEvents, type Told } from './relay.ts'
import type { ReadRequest } from './requests/read-inference.ts'
import { routesFor } from './routes-for.ts'
import { completeResponse, keepResponse } from './stored-responses.ts'
import { totalInput, totalOutput } from '@platform/ai-protocols/usage'
import { type Admitted, CLIENT_LEFT, withCall } from './with-call.ts'

/** The largest body that is copied to go out with the head in one write. */
const JOINED_BYTES_MAX = 16_384

/** Sends a provider's answer to the client. Resolves with the reported usage. */
async function relay({ call, placement, request }: Admitted, served: Served): Promise<Told> {
  const { exchange, outgoing } = call
  const { deps } = exchange
  const { timings } = deps.ai
  const { judged } = served
  const isKept = request.body['store'] !== false && served.wire.keepsAnswers
  const keep = async (responseId: string) => {
    if (isKept) await keepResponse(deps, placement, served.route, responseId)
  }
  const complete = async ({ responseId, itemIds, usage }: KeptAnswer) => {
    if (!isKept || responseId === undefined) return
    const totalTokens = usage && totalInput(usage) + totalOutput(usage)
    await completeResponse(deps, placement, served.route, { id: responseId, itemIds, totalTokens })
  }
  if (judged.kind === 'events') return relayEvents(served, judged, eventsOf(call, request), { timings, keep, complete })
  const headers = commonHeaders(exchange)
  if (judged.kind === 'bytes') return relayBytes(served, judged, outgoing, { headers, timings, kind: 'audio' })
  const { document } = judged
  const { bytes, contentType, responseId } = document
  if (responseId !== undefined) await keep(responseId)
  await complete(document)
  if (call.hasLeft) return document
  outgoing.writeHead(200, { ...headers, 'content-type': contentType, 'content-length': bytes.length })
  // A latin1 string goes out in one write with the head; a buffer would be a second one.
  if (bytes.length <= JOINED_BYTES_MAX) outgoing.end(bytes.toString('latin1'), 'latin1')
  else outgoing.end(bytes)
  return document
}

/** Returns the stream of a call's answer to its client. */
function eventsOf(call: Call, request: InferenceRequest): EventStream {
  const { exchange, outgoing } = call
  const { pingMs } = exchange.deps.ai.timings
  const options = { headers: commonHeaders(exchange), protocol: protocolOf(request), pingMs }
  return (call.events ??= openEventStream(outgoing, options))
}

/** Sends the answer, and settles its usage. */
async function serve(admitted: Admitted, served: Served): Promise<Sent> {
  const { call, request } = admitted
  call.route = served.route
  const inputBytes = request.textBytes
  try {
    const { usage, usageSoFar, outputBytes } = await relay(admitted, served)
    const statusCode = call.hasLeft ? CLIENT_LEFT : 200
    const status = call.hasLeft ? 'cancelled' : 'success'
    call.settle({ status, statusCode, usage, estimate: { inputBytes, usageSoFar, outputBytes } })
    return { sent: statusCode }
  } catch (error) {
    call.isLost = true
    if (!(error instanceof EndedEarly)) throw error
    const { told, failure } = error
    const { usage, usageSoFar, outputBytes } = told
    const end = { usage, estimate: { inputBytes, usageSoFar, outputBytes } }
    // A stream aborted by this process stopped at the provider as if the client had left.
    const isOwnEnd = !failure || failure.code === 'server_shutdown'
    const known = isOwnEnd && told.wasStalled !== true ? 'until left' : 'nothing'
    if (failure) call.settle({ status: 'error', statusCode: 200, failure, known, ...end })
    else call.settle({ status: 'cancelled', statusCode: CLIENT_LEFT, known, ...end })
    return failure ? { sent: 200, failure } : { sent: CLIENT_LEFT }
  } finally {
    served.release()
  }
}

/** Answers one inference call: finds a route, and relays the answer (docs/ai.md). */
export function infer(
  on: { exchange: Exchange<AiDeps>; actor: Actor },
  operation: InferenceRequest['operation'],
  read: ReadRequest,
): Promise<Sent | Reply> {
  return withCall(on, operation, read, async (admitted) => {
    const { call, placement } = admitted
    const { deps, requestId } = call.exchange
    const { routes: offered, ...routedCall } = await routesFor(call, placement, admitted.request)
    const holding = { ...routedCall, routes: offered, keptMs: 0 }
    const { request, routes } = await holdCall(call, placement, holding)
    const context = { ...routedCall, requestId, now: call.startedAt, lacksResponses: deps.ai.lacksResponses }
    const dispatching = {
      organizationId: placement.organizationId,
      signal: call.signal,
      isWaitedFor: call.isWaitedFor,
      answer: request.answer,
      // The hold covers a single request.
      mayRepeatLost: call.held === undefined,
      attempts: call.attempts,
      onAsked: call.noteAsked,
      onLost: call.lose,
      requestBytes: () => Buffer.byteLength(JSON.stringify(request.body)),
    }
    if (request.answer === 'events') eventsOf(call, request)
    const served = await dispatch(deps.ai, dispatching, routes, (route) => wiresFor(request, route, context))
    admitted.releaseBody()
    return serve({ ...admitted, request }, served)
  })
}
