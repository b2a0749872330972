import type { ServerResponse } from 'node:http'
import { describeAiFailure } from '@platform/errors/render-error'
import { noUsage, type Usage } from '@platform/ai-protocols/usage'
import type { Actor } from '../../deps.ts'
import { type Exchange, header } from '../../http/exchange.ts'
import { costNanos } from '../ai-governance/cost.ts'
import type { Prices } from '../ai-governance/prices.ts'
import type { UsageEvent } from '../ai-governance/record-usage.ts'
import type { ProviderAttempt } from '../ai-governance/table.ts'
import { tokensOfBytes } from './local/token-estimate.ts'
import type { KeyedRoute } from './providers/choose-routes.ts'
import type { InferenceOperation, InferenceRequest } from './operations.ts'
import type { Placement } from './place-call.ts'
import { ClientLeft, TookTooLong } from './abort-reasons.ts'
import { recordedCode } from './providers/upstream-failure.ts'

const MODEL_LENGTH_MAX = 256
const END_USER_LENGTH_MAX = 255

/** How a call ended, for its usage event. */
export interface CallEnd {
  status: 'success' | 'error' | 'cancelled' | 'pending'
  /** undefined: that of the failure. */
  statusCode?: number
  failure?: unknown
  /** What the provider said; undefined: what follows is an estimate. */
  usage?: Usage | undefined
  /** Text to estimate from where the provider told no usage; undefined if no provider did any work. */
  estimate?: Estimate | undefined
}

/** Bytes of text. */
interface Estimate {
  inputBytes: number
  outputBytes: number
  /** What was told before the answer ended early. Its input is taken as it is. */
  usageSoFar?: Usage | undefined
}

function estimatedUsage({ inputBytes, outputBytes, usageSoFar }: Estimate): Usage {
  const input = usageSoFar ?? { ...noUsage, inputTokens: tokensOfBytes(inputBytes) }
  return { ...input, outputTokens: tokensOfBytes(outputBytes), reasoningTokens: 0, outputAudioTokens: 0 }
}

/** What a provider charges for the use of a route, and what of it the organization is billed. */
export function costOf(
  prices: Prices,
  route: KeyedRoute | undefined,
  usage: Usage | undefined,
  at: Date,
  videoSeconds = 0,
): Pick<UsageEvent, 'providerCostNanos' | 'billableCostNanos' | 'priceVersion'> {
  const price =
    route && usage && route.keyOwner !== 'local'
      ? (route.price ?? prices.priceOf(route.provider.id, route.upstreamModel, at))
      : undefined
  if (!route || !usage || !price) return { providerCostNanos: 0n, billableCostNanos: 0n, priceVersion: null }
  const providerCostNanos = costNanos(price, usage, videoSeconds)
  const billableCostNanos = route.keyOwner === 'operator' ? providerCostNanos : 0n
  return { providerCostNanos, billableCostNanos, priceVersion: price.version }
}

/** One inference call, from its first byte to its usage event. */
export class Call {
  readonly exchange: Exchange
  readonly actor: Actor
  readonly operation: InferenceOperation
  readonly outgoing: ServerResponse
  readonly startedAt: Date
  /** Aborted when nobody waits for an answer any more. */
  readonly signal: AbortSignal
  readonly attempts: ProviderAttempt[] = []
  placement: Placement | undefined
  modelRequested: string | null = null
  modelServed: string | null = null
  isStream = false
  /** True of an answer that is one document: it is read to its end, whoever waits for it. */
  isWhole = true
  metadata: Record<string, string> | null = null
  endUser: string | null = null
  /** Bytes of the text that the request sends. */
  textBytes = 0
  /** Of a text to be spoken: some providers charge by them. */
  characters = 0
  /** The route of the answer, or else of the last request whose outcome is not known. */
  route: KeyedRoute | undefined
  /** True if a request was sent whose outcome is not known. */
  isLost = false
  hasLeft = false
  readonly #controller = new AbortController()
  readonly #startedAtMs = performance.now()
  readonly #total: NodeJS.Timeout
  readonly #over: () => void
  #left: NodeJS.Timeout | undefined

  constructor(exchange: Exchange, actor: Actor, operation: InferenceOperation) {
    const { deps, c } = exchange
    this.exchange = exchange
    this.actor = actor
    this.operation = operation
    this.outgoing = c.env.outgoing
    this.startedAt = deps.now()
    this.signal = this.#controller.signal
    this.outgoing.once('close', this.#onClose)
    this.#over = deps.ai.calls.add(this.abort)
    this.#total = setTimeout(() => this.abort(new TookTooLong()), deps.ai.timings.totalMs)
  }

  /** Ends what is under way. */
  readonly abort = (reason: Error): void => this.#controller.abort(reason)

  readonly #onClose = (): void => {
    if (this.outgoing.writableFinished) return
    this.hasLeft = true
    // What a provider does for an answer that is whole is paid for in any case: reading it tells how much it was.
    if (!this.isWhole) this.abort(new ClientLeft())
    else this.#left = setTimeout(() => this.abort(new ClientLeft()), this.exchange.deps.ai.timings.leftMs)
  }

  /** A request was sent along a route, and what became of it is not known. */
  readonly lose = (route: KeyedRoute): void => {
    this.route = route
    this.isLost = true
  }

  /** True while the client is there. */
  readonly isWaitedFor = (): boolean => !this.hasLeft

  /** Nothing is under way any more. */
  release(): void {
    this.outgoing.off('close', this.#onClose)
    clearTimeout(this.#total)
    clearTimeout(this.#left)
    this.#over()
  }

  /** Notes what a body says of its caller, whether or not it is right. */
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

  /** Notes what a request that is right asks for. */
  accept({ operation, body, answer, textBytes }: InferenceRequest): void {
    this.textBytes = textBytes
    this.isStream = answer === 'events'
    this.isWhole = answer === 'whole'
    const { input } = body
    if (operation === 'audio.speech' && typeof input === 'string') this.characters = Array.from(input).length
  }

  /** Leaves the usage event of a call that belongs to an organization (the settlement of docs/ai.md). */
  settle({ status, statusCode, failure, usage, estimate }: CallEnd): void {
    const { deps, requestId, trace, incoming } = this.exchange
    if (!this.placement) return
    const { organizationId, applicationId } = this.placement
    const { actor, route } = this
    const completedAt = deps.now()
    const clientRequestId = header(incoming, 'x-request-id')
    const metadata =
      clientRequestId === undefined
        ? this.metadata
        : { ...this.metadata, clientRequestId: clientRequestId.slice(0, 128) }
    const told = usage ?? (estimate && estimatedUsage(estimate))
    const counted = told && { ...told, characters: this.characters }
    const cost = costOf(deps.ai.prices, route, counted, this.startedAt)
    const described = failure === undefined ? undefined : describeAiFailure(failure)
    const event: UsageEvent = {
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
      status,
      statusCode: statusCode ?? described?.status ?? 200,
      errorCode: failure === undefined ? null : recordedCode(failure),
      errorType: described?.type ?? null,
      ...(counted ?? noUsage),
      usageSource: usage ? 'provider' : estimate ? 'estimated' : 'none',
      ...cost,
      streaming: this.isStream,
      latencyMs: Math.round(performance.now() - this.#startedAtMs),
      metadata,
      startedAt: this.startedAt,
      completedAt: status === 'pending' ? null : completedAt,
    }
    deps.usage.record(event)
  }
}
