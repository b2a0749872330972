import { setTimeout as sleep } from 'node:timers/promises'
import { AiError } from '@platform/errors/ai-error'
import type { ProviderAttempt } from '../../ai-governance/table.ts'
import { ClientLeft } from '../abort-reasons.ts'
import type { KeyedRoute } from './choose-routes.ts'
import type { Circuits } from './circuits.ts'
import type { AiTimings } from './timings.ts'
import { routeName } from './model.ts'
import { LostAnswer, NotConnected, type UpstreamAnswer, type UpstreamClient } from './upstream-client.ts'
import { failureOfStatus, recordedCode, upstreamError, upstreamTimeout } from './upstream-failure.ts'
import type { Wire } from './wires.ts'

/** Retries at one provider, after the first attempt. */
const REPEATS_MAX = 2
const ERROR_BYTES_MAX = 65_536
const ERROR_BODY_MS = 5_000
const REPEATED = new Set([429, 500, 502, 503, 504])
/** Statuses for a path that a provider does not have; a 404 may also be about the model. */
const NO_SUCH_PATH = new Set([404, 405, 501])

/** An answer that has begun, and how to end it. */
export interface Served {
  route: KeyedRoute
  wire: Wire
  answer: UpstreamAnswer
  /** Ends the exchange with the provider. Its body fails with the reason. */
  abort(reason: Error): void
  /** Aborted with the exchange, and once nobody waits for the answer. */
  signal: AbortSignal
  /** Releases resources when the exchange is over and nothing is left to end. */
  release(): void
}

export interface Dispatching {
  organizationId: string
  /** Aborted once nobody waits for an answer. */
  signal: AbortSignal
  /** False once the client has left: then no new attempt begins; an answer in progress may continue. */
  isWaitedFor(): boolean
  /** True for an answer in one document: it may take longer to begin. */
  isWhole: boolean
  /** True if a request whose outcome is unknown may be retried, here or elsewhere. */
  mayRepeatLost: boolean
  /** Collects the attempts. */
  attempts: ProviderAttempt[]
  /** Called when a request was sent, whatever its outcome. */
  onAsked(): void
  /** Called when a request was sent along a route and its outcome is unknown. */
  onLost(route: KeyedRoute): void
}

interface DispatchDeps {
  client: UpstreamClient
  circuits: Circuits
  timings: AiTimings
  /** Routes whose model turned out to have no /responses, by `routeName`. */
  lacksResponses: Set<string>
}

/** The first byte did not arrive in time. */
class TooLate extends Error {
  override name = 'TooLate'
}

/** What is at fault: the provider is unreachable, it failed, or it works but rejects the request or the key. */
type Fault = 'unreachable' | 'provider' | 'request'

/**
 * Checks the circuits of a route: the provider's, which may be unreachable; its model's, which may be broken; and, with an
 * operator's key, the organization's, whose requests may be what breaks it. Returns functions to report the outcome of the call;
 * undefined if one of them is open.
 */
function openCircuit(circuits: Circuits, { provider, keyOwner, upstreamModel }: KeyedRoute, organizationId: string) {
  const isShared = keyOwner !== 'organization'
  const ofProvider = `${provider.id} ${isShared ? keyOwner : organizationId}`
  const ofModel = `${ofProvider} ${upstreamModel}`
  const ofCaller = `${ofModel} ${organizationId}`
  const names = isShared ? [ofProvider, ofModel, ofCaller] : [ofProvider, ofModel]
  const forget = (passed: readonly string[]) => {
    for (const name of passed) circuits.forgotten(name)
  }
  for (const [n, name] of names.entries())
    if (!circuits.mayCall(name)) {
      forget(names.slice(0, n))
      return undefined
    }
  const succeeded = () => {
    for (const name of names) circuits.succeeded(name)
  }
  return {
    succeeded,
    failed(fault: Fault) {
      if (fault === 'request') return succeeded()
      if (fault === 'unreachable') {
        forget(names.slice(1))
        return circuits.failed(ofProvider, organizationId, true)
      }
      circuits.succeeded(ofProvider)
      circuits.failed(ofModel, organizationId, !isShared)
      if (isShared) circuits.failed(ofCaller, organizationId, true)
    },
    forgotten: () => forget(names),
  }
}

/** The outcome of one attempt: an answer, or a failure and whether to retry here or elsewhere. */
type Outcome =
  | { kind: 'served'; served: Served }
  | {
      kind: 'failed'
      failure: AiError
      next: 'repeat' | 'elsewhere' | 'give up'
      waitMs?: number
      fault: Fault
      /** The provider may have processed the request all the same. */
      isLost?: true
    }
  | { kind: 'no such path'; failure: AiError }

async function readErrorBody({ body }: UpstreamAnswer, abort: (reason: Error) => void): Promise<Buffer> {
  const late = setTimeout(() => abort(new TooLate()), ERROR_BODY_MS)
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      if (length >= ERROR_BYTES_MAX) break
    }
  } catch {
    // What arrived is enough.
  } finally {
    clearTimeout(late)
  }
  return Buffer.concat(chunks)
}

async function tryOnce(
  { client, timings }: DispatchDeps,
  { signal, isWaitedFor, isWhole, onAsked, onLost }: Dispatching,
  route: KeyedRoute,
  wire: Wire,
): Promise<Outcome> {
  if (!isWaitedFor()) throw new ClientLeft()
  const controller = new AbortController()
  const leave = () => controller.abort(signal.reason)
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  const firstByteMs = isWhole ? timings.wholeFirstByteMs : timings.streamFirstByteMs
  const late = setTimeout(() => controller.abort(new TooLate()), firstByteMs)
  const abort = (reason: Error) => controller.abort(reason)
  const release = () => signal.removeEventListener('abort', leave)
  let answer: UpstreamAnswer
  try {
    answer = await wire.ask(client, controller.signal)
    onAsked()
  } catch (error) {
    release()
    if (!(error instanceof NotConnected || error instanceof AiError)) onAsked()
    if (signal.aborted) {
      if (!(error instanceof NotConnected)) onLost(route)
      throw signal.reason
    }
    if (error instanceof TooLate)
      return { kind: 'failed', failure: upstreamTimeout(route), next: 'elsewhere', fault: 'provider', isLost: true }
    if (error instanceof NotConnected)
      return {
        kind: 'failed',
        failure: upstreamError(route, 'could not be reached'),
        next: 'repeat',
        fault: 'unreachable',
      }
    if (error instanceof LostAnswer)
      return {
        kind: 'failed',
        failure: upstreamError(route, 'closed the connection'),
        next: 'repeat',
        fault: 'provider',
        isLost: true,
      }
    // The provider does not support the caller's protocol, and the request cannot be translated.
    if (error instanceof AiError) return { kind: 'failed', failure: error, next: 'elsewhere', fault: 'request' }
    throw error
  } finally {
    clearTimeout(late)
  }
  const { status } = answer
  if (status >= 200 && status < 300) {
    if (!answer.isEncoded)
      return { kind: 'served', served: { route, wire, answer, abort, signal: controller.signal, release } }
    abort(new TooLate())
    release()
    return {
      kind: 'failed',
      failure: upstreamError(route, 'answered in an encoding'),
      next: 'elsewhere',
      fault: 'provider',
      isLost: true,
    }
  }
  const body = await readErrorBody(answer, abort)
  release()
  signal.throwIfAborted()
  const failure = failureOfStatus(status, body, route)
  if (NO_SUCH_PATH.has(status) && failure.code !== 'model_not_found') return { kind: 'no such path', failure }
  const fault = status < 500 ? 'request' : 'provider'
  if (REPEATED.has(status)) {
    const { retryAfterSeconds } = answer
    if (retryAfterSeconds === undefined) return { kind: 'failed', failure, next: 'repeat', fault }
    const waitMs = retryAfterSeconds * 1_000
    return { kind: 'failed', failure, next: waitMs <= timings.retryAfterMaxMs ? 'repeat' : 'elsewhere', fault, waitMs }
  }
  // An invalid request fails elsewhere too; another provider has another key.
  return { kind: 'failed', failure, next: failure.status < 500 ? 'give up' : 'elsewhere', fault }
}

/** The outcome of a route, after all attempts. */
type RouteOutcome =
  | { kind: 'served'; served: Served }
  | { kind: 'failed'; failure: AiError; isFinal: boolean; fault: Fault }

/** Tries a route until it answers, or retrying is pointless. note: called with each failure. */
async function tryRoute(
  deps: DispatchDeps,
  call: Dispatching,
  route: KeyedRoute,
  wires: readonly [Wire, ...Wire[]],
  note: (failure: AiError) => void,
): Promise<RouteOutcome> {
  let [wire, ...others] = wires
  for (let repeats = 0; ; repeats++) {
    let outcome = await tryOnce(deps, call, route, wire)
    while (outcome.kind === 'no such path') {
      note(outcome.failure)
      const [next, ...rest] = others
      // Only 404 may be about the request: the model, or an id in it. With 405 or 501 the provider works, but lacks this path.
      const isFinal = outcome.failure.status < 500
      if (!next) return { kind: 'failed', failure: outcome.failure, isFinal, fault: 'request' }
      wire = next
      others = rest
      outcome = await tryOnce(deps, call, route, wire)
    }
    if (outcome.kind === 'served') {
      if (wire !== wires[0]) deps.lacksResponses.add(routeName(route))
      return outcome
    }
    const { failure, next, fault, waitMs, isLost } = outcome
    note(failure)
    if (isLost) call.onLost(route)
    const isFinal = next === 'give up' || (isLost === true && !call.mayRepeatLost)
    if (isFinal || next === 'elsewhere' || repeats === REPEATS_MAX) return { kind: 'failed', failure, isFinal, fault }
    const wait = waitMs ?? Math.random() * deps.timings.retryMs * 2 ** repeats
    await sleep(wait, undefined, { signal: call.signal }).catch(() => call.signal.throwIfAborted())
  }
}

/**
 * Sends a request along the routes of a model until one answers. Never retries once an answer has begun.
 *
 * wiresFor: returns the protocols for a route; the next one is used if the provider does not have the path. Throws AiError for a
 * route that cannot carry the request.
 * Throws AiError with the failure of the last route that was sent the request, or else of the last one that was not; the signal's
 * reason; and ClientLeft.
 */
export async function dispatch(
  deps: DispatchDeps,
  call: Dispatching,
  routes: readonly KeyedRoute[],
  wiresFor: (route: KeyedRoute) => readonly [Wire, ...Wire[]],
): Promise<Served> {
  const { circuits } = deps
  const { attempts, organizationId } = call
  let failure: AiError | undefined
  let unasked: AiError | undefined
  for (const route of routes) {
    const { id } = route.provider
    const record = (error: AiError) =>
      void attempts.push({ provider: id, error: recordedCode(error) ?? error.type, statusCode: error.status })
    const note = (error: AiError) => {
      failure = error
      record(error)
    }
    const pass = (error: AiError) => {
      unasked = error
      record(error)
    }
    let wires: readonly [Wire, ...Wire[]]
    try {
      wires = wiresFor(route)
    } catch (error) {
      if (!(error instanceof AiError)) throw error
      pass(error)
      continue
    }
    const circuit = openCircuit(circuits, route, organizationId)
    if (!circuit) {
      pass(upstreamError(route, 'failed several times in a row and is left alone for some seconds'))
      continue
    }
    let outcome: RouteOutcome
    try {
      outcome = await tryRoute(deps, call, route, wires, note)
    } catch (error) {
      circuit.forgotten()
      throw error
    }
    if (outcome.kind === 'served') {
      circuit.succeeded()
      attempts.push({ provider: id, statusCode: outcome.served.answer.status })
      return outcome.served
    }
    circuit.failed(outcome.fault)
    if (outcome.isFinal) throw outcome.failure
  }
  throw failure ?? unasked ?? new AiError(503, 'api_error', 'provider_unavailable', 'No provider can be asked')
}
