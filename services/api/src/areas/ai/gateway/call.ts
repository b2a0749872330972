import type { ServerResponse } from 'node:http'
import { describeAiFailure } from '@platform/errors/render-error'
import { noUsage, totalInput, totalOutput, type Usage } from '@platform/ai-protocols/usage'
import { timeOfId } from '@platform/runtime/new-id'
import type { AiDeps } from '../deps.ts'
import type { Actor } from '../../../http/actor.ts'
import { type Exchange, header } from '../../../http/exchange.ts'
import { costNanos } from '../governance/cost.ts'
import type { Prices } from '../governance/prices.ts'
import type { UsageEvent } from '../governance/record-usage.ts'
import type { ProviderAttempt } from '../governance/table.ts'
import { tokensOfBytes } from './local/token-estimate.ts'
import type { KeyedRoute } from './providers/choose-routes.ts'
import type { LostUsage } from './providers/judge.ts'
import type { EventStream } from './event-stream.ts'
import type { InferenceOperation, InferenceRequest } from './operations.ts'
import type { Placement } from './place-call.ts'
import { ClientLeft, TookTooLong } from './abort-reasons.ts'
import type { HeldBound } from './holds/bound-call.ts'
import { countedUsage, type Estimate, type Known } from './holds/counted-usage.ts'
import { recordedCode } from './providers/upstream-failure.ts'

const MODEL_LENGTH_MAX = 256
const END_USER_LENGTH_MAX = 255

/** The outcome of a call, for its usage event. */
export interface CallEnd {
  status: 'success' | 'error' | 'cancelled' | 'pending'
  /** undefined: that of the failure. */
  statusCode?: number
  failure?: unknown
  /** Usage reported by the provider; undefined: estimate it from `estimate`. */
  usage?: Usage | undefined
  /** Text to estimate from if the provider reported no usage; undefined if no provider did any work. */
  estimate?: Estimate | undefined
  /** How much of the answer is known; all if omitted. */
  known?: Known
}

function estimatedUsage({ inputBytes, outputBytes, usageSoFar }: Estimate): Usage {
  const input = usageSoFar ?? { ...noUsage, inputTokens: tokensOfBytes(inputBytes) }
  return { ...input, outputTokens: tokensOfBytes(outputBytes), reasoningTokens: 0, outputAudioTokens: 0 }
}

/** Returns what a provider charges for the use of a route, and how much of that the organization is billed. */
export function costOf(
  prices: Prices,
  route: KeyedRoute | undefined,
  usage: Usage | undefined,
  time: Date,
  videoSeconds = 0,
): Pick<UsageEvent, 'providerCostNanos' | 'billableCostNanos' | 'priceVersion'> {
  const price =
    route && usage && route.keyOwner !== 'local'
      ? (route.price ?? prices.priceOf(route.provider.id, route.upstreamModel, time))
      : undefined
  if (!route || !usage || !price) return { providerCostNanos: 0n, billableCostNanos: 0n, priceVersion: null }
  const providerCostNanos = costNanos(price, usage, videoSeconds)
  const billableCostNanos = route.keyOwner === 'operator' ? providerCostNanos : 0n
  return { providerCostNanos, billableCostNanos, priceVersion: price.version }
}

/** One inference call, from its first byte to its usage event. */
export class Call {
  readonly exchange: Exchange<AiDeps>
  readonly actor: Actor
  readonly operation: InferenceOperation
  readonly outgoing: ServerResponse
  readonly startedAt: Date
  /** Aborted once nobody waits for an answer. */
  readonly signal: AbortSignal
  readonly attempts: ProviderAttempt[] = []
  placement: Placement | undefined
  modelRequested: string | null = null
  modelServed: string | null = null
  isStream = false
  /** True if the answer is one document: it is read to its end, even after the client has left. */
  isWhole = true
  metadata: Record<string, string> | null = null
  endUser: string | null = null
  /** Bytes of text in the request. */
  textBytes = 0
  /** Characters of the text to be spoken: some providers charge by them. */
  characters = 0
  /** The route of the answer, or else of the last request whose outcome is unknown. */
  route: KeyedRoute | undefined
  /** True if the outcome of a sent request is unknown. */
  isLost = false
  /** Usage that the provider of such a request told before it was lost. */
  lostUsage: LostUsage | undefined
  /** Owner of the key, which is the same for all routes of the call. */
  keyOwner: KeyedRoute['keyOwner'] | null = null
  /** True once a request was sent to a provider. */
  wasAsked = false
  /** The amount held from its budgets; undefined: no budget limits it. */
  held: HeldBound | undefined
  hasLeft = false
  /** The stream of the answer to the client; undefined: it is none, or the call has no route yet. */
  events: EventStream | undefined
  readonly #controller = new AbortController()
  readonly #startedAtMs = performance.now()
  readonly #total: NodeJS.Timeout
  readonly #over: () => void
  #left: NodeJS.Timeout | undefined

  constructor(exchange: Exchange<AiDeps>, actor: Actor, operation: InferenceOperation) {
    const { deps, c } = exchange
    this.exchange = exchange
    this.actor = actor
    this.operation = operation
    this.outgoing = c.env.outgoing
    this.startedAt = timeOfId(exchange.requestId)
    this.signal = this.#controller.signal
    this.outgoing.once('close', this.#onClose)
    this.#over = deps.ai.calls.add(this.abort)
    this.#total = setTimeout(() => this.abort(new TookTooLong()), deps.ai.timings.totalMs)
  }

  /** Aborts the work in progress. */
  readonly abort = (reason: Error): void => this.#controller.abort(reason)

  readonly #onClose = (): void => {
    if (this.outgoing.writableFinished) return
    this.hasLeft = true
    // A provider charges for a whole answer in any case: reading it to the end shows how much.
    if (!this.isWhole) this.abort(new ClientLeft())
    else this.#left = setTimeout(() => this.abort(new ClientLeft()), this.exchange.deps.ai.timings.leftMs)
  }

  /** Notes that the outcome of a request sent along a route is unknown. */
  readonly lose = (route: KeyedRoute, told?: LostUsage): void => {
    this.route = route
    this.isLost = true
    this.lostUsage = told
  }

  /** Notes that a request was sent to a provider. */
  readonly noteAsked = (): void => void (this.wasAsked = true)

  /** True while the client is connected. */
  readonly isWaitedFor = (): boolean => !this.hasLeft

  /** Releases listeners and timers at the end of the call. */
  release(): void {
    this.outgoing.off('close', this.#onClose)
    clearTimeout(this.#total)
    clearTimeout(this.#left)
    this.events?.stop()
    this.#over()
  }

  /** Records what a body says about its caller, whether or not the body is valid. */
  describe(body: Readonly<Record<string, unknown>>): void {
    const { model, metadata, user, safety_identifier: safetyIdentifier, stream } = body
    if (typeof model === 'string') this.modelRequested = model.slice(0, MODEL_LENGTH_MAX)
    this.isStream = stream === true || stream === 'true'
    const named = header(this.exchange.incoming, 'x-end-user-id') ?? user ?? safetyIdentifier
    if (typeof named === 'string') this.endUser = named.slice(0, END_USER_LENGTH_MAX)
    if (typeof metadata === 'object' && metadata !== null) {
      const texts = Object.entries(metadata).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
      this.metadata = Object.fromEntries(
        texts.slice(0, 16).map(([key, text]) => [key.slice(0, 64), text.slice(0, 512)]),
      )
    }
  }

  /** Records what a valid request asks for. */
  accept({ operation, body, answer, textBytes }: InferenceRequest): void {
    this.textBytes = textBytes
    this.isStream = answer === 'events'
    this.isWhole = answer === 'whole'
    const { input } = body
    if (operation === 'audio.speech' && typeof input === 'string') this.characters = Array.from(input).length
  }

  /** Records the usage event of a call that belongs to an organization ("settlement" in docs/ai.md). */
  settle({ status, statusCode, failure, usage, estimate, known = 'whole' }: CallEnd): void {
    const { deps } = this.exchange
    if (!this.placement) return
    const { route } = this
    const told = usage ?? (estimate && estimatedUsage(estimate))
    const used = told && { ...told, characters: this.characters }
    const cost = costOf(deps.ai.prices, route, used, this.startedAt)
    const described = failure === undefined ? undefined : describeAiFailure(failure)
    const event: UsageEvent = {
      ...this.#event(this.placement, route),
      status,
      statusCode: statusCode ?? described?.status ?? 200,
      errorCode: failure === undefined ? null : recordedCode(failure),
      errorType: described?.type ?? null,
      ...(used ?? noUsage),
      usageSource: usage ? 'provider' : estimate ? 'estimated' : 'none',
      ...cost,
      ...countedUsage(this, {
        charged: { costNanos: cost.providerCostNanos, tokens: used ? totalInput(used) + totalOutput(used) : 0 },
        isPending: status === 'pending',
        isTold: usage !== undefined,
        estimate,
        known,
      }),
      latencyMs: Math.round(performance.now() - this.#startedAtMs),
      completedAt: status === 'pending' ? null : deps.now(),
    }
    // A video keeps its hold until it is made.
    deps.usage.record(event, this.held !== undefined && status !== 'pending')
  }

  /** Makes the event to use if the process dies before the call is settled: the call counts as if it had used its whole hold. */
  eventIfLost({ bound }: HeldBound, placement: Placement, route: KeyedRoute | undefined): UsageEvent {
    const costNanos = bound?.costNanos ?? 0n
    const first = bound?.routes[0]
    return {
      ...this.#event(placement, route),
      status: 'error',
      statusCode: 503,
      errorCode: 'process_died',
      errorType: 'api_error',
      ...noUsage,
      inputTokens: first?.inputTokens ?? 0,
      outputTokens: first?.outputTokens ?? 0,
      usageSource: 'estimated',
      providerCostNanos: costNanos,
      billableCostNanos: route?.keyOwner === 'operator' ? costNanos : 0n,
      priceVersion: first?.price?.version ?? null,
      keyOwner: route?.keyOwner ?? null,
      countedRequests: 1,
      countedTokens: bound?.tokens ?? 0,
      countedCostNanos: costNanos,
      latencyMs: 0,
      completedAt: null,
    }
  }

  /** The event's members on who made the call and what was requested. */
  #event({ organizationId, applicationId }: Placement, route: KeyedRoute | undefined) {
    const { requestId, trace, incoming } = this.exchange
    const { actor } = this
    const clientRequestId = header(incoming, 'x-request-id')
    return {
      id: requestId,
      traceId: trace?.traceId ?? null,
      organizationId,
      applicationId,
      actorId: actor.kind === 'user' ? actor.userId : actor.keyId,
      actorType: actor.kind,
      apiKeyId: actor.kind === 'key' ? actor.keyId : null,
      authenticatedUserId: actor.kind === 'user' ? actor.userId : null,
      callerEndUserId: this.endUser,
      modelRequested: this.modelRequested,
      modelServed: this.modelServed,
      provider: route?.provider.id ?? this.attempts.at(-1)?.provider ?? null,
      providerAttempts: this.attempts,
      operation: this.operation,
      keyOwner: this.wasAsked ? (route?.keyOwner ?? this.keyOwner) : null,
      streaming: this.isStream,
      metadata:
        clientRequestId === undefined
          ? this.metadata
          : { ...this.metadata, clientRequestId: clientRequestId.slice(0, 128) },
      startedAt: this.startedAt,
    }
  }
}
