import { ApiError } from '@platform/errors/api-error'
import type { AiDeps } from '../deps.ts'
import type { Actor } from '../../../http/actor.ts'
import { readHeaders } from '../../../http/endpoint.ts'
import { asApiError, type Exchange, type Reply, type Sent } from '../../../http/exchange.ts'
import { Call } from './call.ts'
import type { InferenceOperation, InferenceRequest } from './operations.ts'
import { inferenceHeaders, placeCall, type Placement } from './place-call.ts'
import type { ReadRequest } from './requests/read-inference.ts'
import { ClientLeft, ShuttingDown, TookTooLong } from './abort-reasons.ts'
import { shuttingDown, tookTooLong, upstreamTimeout } from './providers/upstream-failure.ts'

/** Status in the log for a client that left before it got an answer. */
export const CLIENT_LEFT = 499

/** An admitted call: read, checked and placed. */
export interface Admitted {
  call: Call
  placement: Placement
  request: InferenceRequest
  /** Call when the body is not needed any more: its memory no longer counts. */
  releaseBody(): void
}

/** Returns the failure of a call that its deadline or the shutdown ended before an answer began. */
function failureOf(call: Call, error: unknown): unknown {
  if (!call.signal.aborted || error !== call.signal.reason) return error
  if (error instanceof TookTooLong) return call.route ? upstreamTimeout(call.route) : tookTooLong()
  if (error instanceof ShuttingDown) return call.hasLeft ? new ClientLeft() : shuttingDown()
  return error
}

/**
 * Runs one call: reads and checks the request, finds its organization, and records the usage event of a failure. `work` records the
 * event of its answer.
 *
 * read: returns an invalid request as a failure instead of throwing, so that its event can be placed all the same.
 */
export async function withCall(
  { exchange, actor }: { exchange: Exchange<AiDeps>; actor: Actor },
  operation: InferenceOperation,
  read: ReadRequest,
  work: (admitted: Admitted) => Promise<Sent | Reply>,
): Promise<Sent | Reply> {
  const { deps } = exchange
  const headers = readHeaders(inferenceHeaders, exchange.incoming)
  const call = new Call(exchange, actor, operation)
  const place = async () => (call.placement = await placeCall({ deps, actor }, headers))
  try {
    await using reading = await read(call)
    if (reading.failure) {
      // Its event belongs to the organization, if there is one; the request's own failure takes precedence.
      await place().catch(() => undefined)
      throw reading.failure
    }
    call.accept(reading.request)
    const placement = await place()
    return await work({ call, placement, request: reading.request, releaseBody: reading.release })
  } catch (error) {
    const failure = asApiError(failureOf(call, error))
    const estimate = call.isLost
      ? { inputBytes: call.textBytes, outputBytes: 0, usageSoFar: call.lostUsage?.usageSoFar }
      : undefined
    const usage = call.lostUsage?.usage
    if (failure instanceof ClientLeft) {
      const known = call.isWhole ? 'nothing' : 'until left'
      call.settle({ status: 'cancelled', statusCode: CLIENT_LEFT, estimate, known })
      return { sent: CLIENT_LEFT }
    }
    if (!call.events?.hasBegun) {
      call.settle({ status: 'error', failure, usage, estimate, known: 'nothing' })
      throw failure
    }
    call.settle({ status: 'error', statusCode: 200, failure, usage, estimate, known: 'nothing' })
    call.events.fail(failure)
    return { sent: failure instanceof ApiError ? 200 : 500, failure }
  } finally {
    call.release()
  }
}
