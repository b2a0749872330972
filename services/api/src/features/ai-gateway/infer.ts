import type { Actor } from '../../deps.ts'
import { commonHeaders, type Exchange, type Reply, type Sent } from '../../http/exchange.ts'
import { holdCall } from './holds/hold-call.ts'
import { dispatch, type Served } from './providers/dispatch.ts'
import type { InferenceRequest } from './operations.ts'
import type { ReadRequest } from './requests/read-inference.ts'
import { EndedEarly, readWhole, relayBytes, relayEvents, type Told, type KeptAnswer } from './relay.ts'
import { routesFor } from './routes-for.ts'
import { completeResponse, keepResponse } from './stored-responses.ts'
import { totalInput, totalOutput } from '@platform/ai-protocols/usage'
import { upstreamError } from './providers/upstream-failure.ts'
import { protocolOf, wiresFor } from './providers/wires.ts'
import { type Admitted, CLIENT_LEFT, withCall } from './with-call.ts'

/** The largest body that is copied to go out with the head in one write. */
const JOINED_BYTES_MAX = 16_384

/** Sends a provider's answer to the client. Resolves with the reported usage. */
async function relay({ call, placement, request }: Admitted, served: Served): Promise<Told> {
  const { exchange, outgoing } = call
  const { deps } = exchange
  const { timings } = deps.ai
  const headers = commonHeaders(exchange)
  const isKept = request.body['store'] !== false && served.wire.keepsAnswers
  const keep = async (responseId: string) => {
    if (isKept) await keepResponse(deps, placement, served.route, responseId)
  }
  const complete = async ({ responseId, itemIds, usage }: KeptAnswer) => {
    if (!isKept || responseId === undefined) return
    const totalTokens = usage && totalInput(usage) + totalOutput(usage)
    await completeResponse(deps, placement, served.route, { id: responseId, itemIds, totalTokens })
  }
  if (request.answer === 'events')
    return relayEvents(served, outgoing, { headers, protocol: protocolOf(request), timings, keep, complete })
  if (request.answer === 'bytes') return relayBytes(served, outgoing, { headers, timings, kind: 'audio' })
  const body = await readWhole(served, timings)
  let answer
  try {
    answer = served.wire.readWhole(body)
  } catch {
    throw upstreamError(served.route, 'sent an answer that cannot be read')
  }
  const { bytes, contentType, responseId } = answer
  if (responseId !== undefined) await keep(responseId)
  await complete(answer)
  if (call.hasLeft) return answer
  outgoing.writeHead(200, { ...headers, 'content-type': contentType, 'content-length': bytes.length })
  // A latin1 string goes out in one write with the head; a buffer would be a second one.
  if (bytes.length <= JOINED_BYTES_MAX) outgoing.end(bytes.toString('latin1'), 'latin1')
  else outgoing.end(bytes)
  return answer
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
  on: { exchange: Exchange; actor: Actor },
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
      isWhole: request.answer === 'whole',
      // The hold covers a single request.
      mayRepeatLost: call.held === undefined,
      attempts: call.attempts,
      onAsked: call.noteAsked,
      onLost: call.lose,
    }
    const served = await dispatch(deps.ai, dispatching, routes, (route) => wiresFor(request, route, context))
    admitted.releaseBody()
    return serve({ ...admitted, request }, served)
  })
}
