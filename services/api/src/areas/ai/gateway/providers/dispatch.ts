import { setTimeout as sleep } from 'node:timers/promises'
import { AiError } from '@platform/errors/ai-error'
import type { ProviderAttempt } from '../../governance/table.ts'
import { ClientLeft, TookTooLong } from '../abort-reasons.ts'
import type { AnswerKind } from '../operations.ts'
import type { KeyedRoute } from './choose-routes.ts'
import type { Circuits } from './circuits.ts'
import { judge, type Judged, type LostUsage, NoAnswer, readWordsOf } from './judge.ts'
import { routeName } from './model.ts'
import { BrokenStream, ToldFailure } from './stream-reader.ts'
import type { AiTimings } from './timings.ts'
import { LostAnswer, NotConnected, type UpstreamAnswer, type UpstreamClient } from './upstream-client.ts'
import { failureOfExchange, failureOfStatus, recordedCode, upstreamError } from './upstream-failure.ts'
import { parseWords, readWords } from './upstream-words.ts'
import type { Wire } from './wires.ts'

/** Retries at one provider, after the first attempt. */
const REPEATS_MAX = 2
/** Statuses for a path that a provider does not have; a 404 may also be about the model. */
const NO_SUCH_PATH = new Set([404, 405, 501])
/** The status of a failure told in words that name none. */
const UNNAMED_STATUS = 502

/** True for a status that may pass, as the SDKs of OpenAI and Anthropic see it. */
const mayPass = (status: number): boolean =>
  [408, 409, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505)

/** An answer that has begun, and how to end it. */
export interface Served {
  route: KeyedRoute
  wire: Wire
  judged: Judged
  /** The attempt that it came by: if the answer fails later, the failure is noted there. */
  attempt: ProviderAttempt
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
  /** The form of the answer. A whole one may take longer to begin. */
  answer: AnswerKind
  /** True if a request whose outcome is unknown may be retried, here or elsewhere. */
  mayRepeatLost: boolean
  /** Collects the attempts. */
  attempts: ProviderAttempt[]
  /** Called when a request was sent, whatever its outcome. */
  onAsked(): void
  /** Called when a request was sent along a route and its outcome is unknown. told: by the provider until then. */
  onLost(route: KeyedRoute, told?: LostUsage): void
  /** Returns the size of the request in bytes. Formats all of it. */
  requestBytes(): number
}

interface DispatchDeps {
  client: UpstreamClient
  circuits: Circuits
  timings: AiTimings
  /** Routes whose model turned out to have no /responses, by `routeName`. */
  lacksResponses: Set<string>
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
    /** Lets other calls test a provider whose answer has begun; its verdict follows. */
    begun: () => forget(names),
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

/** A failed attempt, and whether to retry here or elsewhere. */
interface Failed {
  kind: 'failed'
  failure: AiError
  /** What it is called in the record of the attempt. */
  name: string
  /** The provider's own status; undefined: none came. */
  status?: number | undefined
  next: 'repeat' | 'elsewhere' | 'give up' | 'next wire'
  waitMs?: number
  fault: Fault
  /** True if the provider may have processed the request all the same. */
  isLost?: boolean
  told?: LostUsage
}

/** Returns the outcome of a status, or of a failure in words that names it. value: the error document. */
function failedWith(status: number, value: unknown, route: KeyedRoute, predicate?: string): Failed {
  const failure = failureOfStatus(status, value, route, predicate)
  const name = recordedCode(failure) ?? failure.type
  const fault = status < 500 ? 'request' : 'provider'
  const failed = { kind: 'failed', failure, name, status, fault } as const
  if (NO_SUCH_PATH.has(status) && failure.code !== 'model_not_found') return { ...failed, next: 'next wire' }
  if (mayPass(status)) return { ...failed, next: 'repeat' }
  // An invalid request fails elsewhere too; another provider has another key.
  return { ...failed, next: failure.status < 500 ? 'give up' : 'elsewhere' }
}

/** Returns the outcome of an exchange that ended without an answer. status: that of the answer, if one began. */
function failedBy(error: unknown, route: KeyedRoute, status?: number): Failed {
  const failed = { kind: 'failed', ...failureOfExchange(route, error), status } as const
  // The provider does not support the caller's protocol, and the request cannot be translated.
  if (error instanceof AiError) return { ...failed, next: 'elsewhere', fault: 'request' }
  if (error instanceof NotConnected) return { ...failed, next: 'repeat', fault: 'unreachable' }
  const isEarly = status === undefined && !(error instanceof TookTooLong)
  return { ...failed, next: isEarly ? 'repeat' : 'elsewhere', fault: 'provider', isLost: true }
}

/** Returns the outcome of an answer under a status of success that turned out to be none. */
function failedUnder(status: number, { cause, isLost, told }: NoAnswer, route: KeyedRoute): Failed {
  if (!(cause instanceof ToldFailure)) return { ...failedBy(cause, route, status), told }
  const named = readWords(cause.value).status
  const failed = failedWith(named ?? UNNAMED_STATUS, cause.value, route, 'answered with an error')
  // The provider has the path: it answered there.
  const elsewhere = failed.failure.status < 500 ? 'give up' : 'elsewhere'
  const next = failed.next === 'next wire' ? elsewhere : failed.next
  return { ...failed, next, status: named ?? status, isLost, told }
}

/** Lets a repeat wait for as long as the provider asks; if that is too long, there is none. */
function waiting(failed: Failed, { retryAfterSeconds }: UpstreamAnswer, { retryAfterMaxMs }: AiTimings): Failed {
  if (failed.next !== 'repeat' || retryAfterSeconds === undefined) return failed
  const waitMs = retryAfterSeconds * 1_000
  return { ...failed, next: waitMs <= retryAfterMaxMs ? 'repeat' : 'elsewhere', waitMs }
}

/** What can end an exchange before an answer begins. */
const knownEnds = [NotConnected, LostAnswer, TookTooLong, AiError]

type Outcome = { kind: 'served'; served: Omit<Served, 'attempt'>; status: number } | Failed

/**
 * Sends a request once, and waits until its answer is judged. Throws ClientLeft, and the signal's reason.
 *
 * onBegun: called when a status of success arrives.
 */
async function tryOnce(
  { client, timings }: DispatchDeps,
  { signal, isWaitedFor, answer: kind, attempts, onAsked, onLost, requestBytes }: Dispatching,
  route: KeyedRoute,
  wire: Wire,
  onBegun: () => void,
): Promise<Outcome> {
  if (!isWaitedFor()) throw new ClientLeft()
  const controller = new AbortController()
  const leave = () => controller.abort(signal.reason)
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  const firstByteMs = kind === 'whole' ? timings.wholeFirstByteMs : timings.streamFirstByteMs
  const late = setTimeout(() => controller.abort(new TookTooLong()), firstByteMs)
  const abort = (reason: Error) => controller.abort(reason)
  const release = () => signal.removeEventListener('abort', leave)
  let answer: UpstreamAnswer
  try {
    answer = await wire.ask(client, controller.signal)
    onAsked()
  } catch (error) {
    release()
    const wasSent = !(error instanceof NotConnected || error instanceof AiError)
    if (wasSent) onAsked()
    if (signal.aborted) {
      if (wasSent) {
        attempts.push(abandonedAttempt(route, signal.reason))
        onLost(route)
      }
      throw signal.reason
    }
    if (!knownEnds.some((known) => error instanceof known)) throw error
    return failedBy(error, route)
  } finally {
    clearTimeout(late)
  }
  const { status } = answer
  if (status < 200 || status >= 300) {
    const body = await readWordsOf(answer, abort)
    release()
    abort(new BrokenStream())
    const failed = waiting(failedWith(status, parseWords(body), route), answer, timings)
    if (!signal.aborted) return failed
    attempts.push(attemptOf(route, failed))
    throw signal.reason
  }
  onBegun()
  try {
    if (answer.isEncoded) throw new NoAnswer(new BrokenStream('An encoding'), { isLost: true })
    const judged = await judge({ answer, wire, kind, abort, timings, requestBytes })
    return { kind: 'served', served: { route, wire, judged, abort, signal: controller.signal, release }, status }
  } catch (error) {
    release()
    abort(new BrokenStream())
    if (!(error instanceof NoAnswer)) throw error
    if (!signal.aborted) return waiting(failedUnder(status, error, route), answer, timings)
    attempts.push(abandonedAttempt(route, signal.reason, status))
    if (error.isLost) onLost(route, error.told)
    throw signal.reason
  }
}

/** Makes the record of an attempt. */
const attemptOf = (
  { provider }: KeyedRoute,
  { name, status }: { name?: string | undefined; status?: number | undefined },
): ProviderAttempt => ({
  provider: provider.id,
  ...(name !== undefined && { error: name }),
  ...(status !== undefined && { statusCode: status }),
})

/** Makes the record of an attempt that ended with its call. A client that leaves is no failure. */
const abandonedAttempt = (route: KeyedRoute, reason: unknown, status?: number): ProviderAttempt =>
  attemptOf(route, { name: reason instanceof ClientLeft ? undefined : failureOfExchange(route, reason).name, status })

/** The outcome of a route, after all attempts. */
type RouteOutcome =
  | { kind: 'served'; served: Served }
  | { kind: 'failed'; failure: AiError; isFinal: boolean; fault: Fault }

/** Tries a route until it answers, or retrying is pointless. */
async function tryRoute(
  deps: DispatchDeps,
  call: Dispatching,
  route: KeyedRoute,
  wires: readonly [Wire, ...Wire[]],
  onBegun: () => void,
): Promise<RouteOutcome> {
  let [wire, ...others] = wires
  for (let repeats = 0; ;) {
    const outcome = await tryOnce(deps, call, route, wire, onBegun)
    if (outcome.kind === 'served') {
      if (wire !== wires[0]) deps.lacksResponses.add(routeName(route))
      const attempt = attemptOf(route, { status: outcome.status })
      call.attempts.push(attempt)
      return { kind: 'served', served: { ...outcome.served, attempt } }
    }
    const { failure, next, fault, waitMs, isLost } = outcome
    call.attempts.push(attemptOf(route, outcome))
    if (isLost === true) call.onLost(route, outcome.told)
    if (isLost === true && !call.mayRepeatLost) return { kind: 'failed', failure, isFinal: true, fault }
    const [nextWire, ...rest] = others
    if (next === 'next wire' && nextWire) {
      wire = nextWire
      others = rest
      continue
    }
    if (next !== 'repeat' || repeats === REPEATS_MAX) {
      // Only 404 may be about the request: the model, or an id in it. With 405 or 501 the provider works, but lacks this path.
      const isFinal = next === 'give up' || (next === 'next wire' && failure.status < 500)
      return { kind: 'failed', failure, isFinal, fault: next === 'next wire' ? 'request' : fault }
    }
    const wait = waitMs ?? Math.random() * deps.timings.retryMs * 2 ** repeats
    repeats++
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
    const pass = (error: AiError, name: string) => {
      unasked = error
      attempts.push({ provider: route.provider.id, error: name })
    }
    let wires: readonly [Wire, ...Wire[]]
    try {
      wires = wiresFor(route)
    } catch (error) {
      if (!(error instanceof AiError)) throw error
      pass(error, recordedCode(error) ?? error.type)
      continue
    }
    const circuit = openCircuit(circuits, route, organizationId)
    if (!circuit) {
      pass(upstreamError(route, 'failed several times in a row and is left alone for some seconds'), 'circuit_open')
      continue
    }
    let outcome: RouteOutcome
    try {
      outcome = await tryRoute(deps, call, route, wires, circuit.begun)
    } catch (error) {
      circuit.forgotten()
      throw error
    }
    if (outcome.kind === 'served') {
      circuit.succeeded()
      return outcome.served
    }
    circuit.failed(outcome.fault)
    failure = outcome.failure
    if (outcome.isFinal) throw failure
  }
  throw failure ?? unasked ?? new Error('No route')
}
