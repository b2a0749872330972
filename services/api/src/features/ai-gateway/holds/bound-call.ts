import { AiError } from '@platform/errors/ai-error'
import { costNanos } from '../../ai-governance/cost.ts'
import type { CountedUnit, Price, Prices, Rate } from '../../ai-governance/prices.ts'
import { noUsage } from '@platform/ai-protocols/usage'
import type { InferenceRequest } from '../operations.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import type { Model } from '../providers/model.ts'
import { measureInput, type SentInput } from './input-bound.ts'
import { recordingSeconds } from './recording-seconds.ts'
import { unsupportedUnderBudget } from './unsupported-under-budget.ts'

/** Tokens that a provider adds to any request, and to one with tools. */
const ADDED_TOKENS = 256
const ADDED_TOOL_TOKENS = 1_024
const MTOK = 1_000_000n
const MICROSECONDS = 1_000_000
/** Larger caps do not count as caps: no model outputs that much. */
const CAP_MAX = 2_147_483_647
/** A billion dollars, in nano-USD: calls that cost more cannot be held. */
const COST_NANOS_MAX = 1_000_000_000_000_000_000n

const inputUnits = ['input_mtok', 'cache_read_mtok', 'cache_write_mtok'] as const satisfies CountedUnit[]
const outputUnits = ['output_mtok', 'output_reasoning_mtok', 'output_audio_mtok'] as const satisfies CountedUnit[]

/** The most that a call may use along one route. */
export interface RouteBound {
  route: KeyedRoute
  /** null: unknown. */
  price: Price | null
  inputTokens: number
  outputTokens: number
  /** Nano-USD; null: the price is unknown. */
  costNanos: bigint | null
  /** The part of it that is not for output. */
  inputCostNanos: bigint
  /** Maximum price of output, in nano-USD per million tokens. */
  outputRate: bigint
}

/** The most that a call may use, whichever route it takes. */
export interface CallBound {
  routes: readonly RouteBound[]
  /** null: unknown for some route. */
  costNanos: bigint | null
  tokens: number
}

/** The hold of an admitted call. */
export interface HeldBound {
  /** null: only the request is counted, since no maximum limits anything else. */
  bound: CallBound | null
  /** Number of answers requested at once. */
  choices: number
}

/** The contents of a call, and the limits of its output. */
interface Asked {
  request: InferenceRequest
  model: Model
  /** Tokens of one choice; null if the operation has no cap. */
  cap: number | null
  choices: number
  /** Tokens of the response that the request builds on; null: unknown. */
  earlierTokens: number | null
}

/** Returns the highest rate of some units, over all tiers that this many input tokens may reach. */
function dearest(price: Price, units: readonly CountedUnit[], inputTokens: number): bigint {
  const rates = units.flatMap((unit): readonly Rate[] => {
    const rate = price.rates[unit]
    return rate ? [rate] : []
  })
  const all = rates.flatMap(({ base, tiers }) => [
    base,
    ...tiers.filter(({ above }) => inputTokens > above).map(({ nanos }) => nanos),
  ])
  return all.reduce((most, nanos) => (nanos > most ? nanos : most), 0n)
}

/** Returns the cost of tokens at a rate per million, rounded up. */
export const nanosOfTokens = (tokens: number, rate: bigint): bigint => (BigInt(tokens) * rate + MTOK - 1n) / MTOK

const hasAny = (price: Price, units: readonly CountedUnit[]): boolean =>
  units.some((unit) => price.rates[unit] !== undefined)

/** Returns the tokens of all parts of a kind. Throws for the first part if the route has no bound for the kind. */
function partTokens(paths: SentInput['images'], bound: number | undefined, what: string): number {
  const [first] = paths
  if (first && bound === undefined) throw unsupportedUnderBudget(first, `what a ${what} costs at most is not known`)
  return paths.length * (bound ?? 0)
}

/** Returns the maximum seconds and tokens of a recording to transcribe; undefined: unknown. */
async function recordingBound({ request }: Asked, { bounds, keyOwner }: KeyedRoute) {
  if (!request.audio) return { seconds: 0, tokens: 0 }
  if (keyOwner === 'local') return { seconds: 0, tokens: request.audio.file.bytes }
  const measured = await recordingSeconds(request.audio.file)
  const seconds = measured ?? bounds.fileSeconds
  const tokens =
    bounds.file ??
    (seconds !== undefined && bounds.audioSecond !== undefined ? Math.ceil(seconds * bounds.audioSecond) : undefined)
  return { seconds, tokens }
}

/** True if a recording is charged by its length, not its tokens. */
const isTimed = (price: Price | null): boolean => price !== null && hasAny(price, ['audio_hours', 'input_audio_hours'])

/** Returns the tokens sent along a route. Throws for a part whose kind has no bound there. */
function inputTokensOf(asked: Asked, sent: SentInput, { bounds }: KeyedRoute, recordingTokens: number): number {
  if (asked.earlierTokens === null)
    throw unsupportedUnderBudget(['previous_response_id'], 'how long that response is is not known')
  const added = ADDED_TOKENS + (sent.hasTools ? ADDED_TOOL_TOKENS : 0) + asked.earlierTokens
  const parts =
    partTokens(sent.images, bounds.image, 'picture') +
    partTokens(sent.files, bounds.file, 'file') +
    partTokens(sent.sounds, bounds.file, 'recording')
  return sent.textBytes + added + parts + recordingTokens
}

/** Returns the maximum output tokens along a route. Throws if unknown. */
function outputTokensOf(
  { request, model, cap, choices }: Asked,
  price: Price | null,
  { keyOwner }: KeyedRoute,
): number {
  if (request.operation === 'videos') return 0
  // Without a cap in the request, the model's own limit applies.
  const perChoice = cap ?? model.maxOutputTokens
  if (perChoice !== null && perChoice > CAP_MAX)
    throw unsupportedUnderBudget(['model'], `a cap of more than ${CAP_MAX} tokens bounds nothing`)
  if (perChoice !== null) return perChoice * choices
  if (keyOwner !== 'local' && (price === null || hasAny(price, outputUnits)))
    throw unsupportedUnderBudget(['model'], 'how long its answers are at most is not known')
  return 0
}

/** Throws AiError, `unsupported_under_budget`. */
async function boundRoute(asked: Asked, sent: SentInput, route: KeyedRoute, price: Price | null): Promise<RouteBound> {
  const { request } = asked
  const recording = await recordingBound(asked, route)
  if (isTimed(price) ? recording.seconds === undefined : recording.tokens === undefined)
    throw unsupportedUnderBudget(['file'], 'how long the recording is cannot be told; uncompressed WAV says it')
  const inputTokens = inputTokensOf(asked, sent, route, recording.tokens ?? 0)
  const outputTokens = outputTokensOf(asked, price, route)
  const bound = { route, price, inputTokens, outputTokens }
  if (price === null)
    return { ...bound, costNanos: route.keyOwner === 'local' ? 0n : null, inputCostNanos: 0n, outputRate: 0n }
  const hasSound = sent.sounds.length > 0 || request.audio !== undefined
  const inputRate = dearest(price, hasSound ? [...inputUnits, 'input_audio_mtok'] : inputUnits, inputTokens)
  const outputRate = dearest(price, outputUnits, inputTokens)
  const counted = { ...noUsage, characters: charactersOf(request), audioSeconds: recording.seconds ?? 0 }
  const fixed = costNanos(price, counted, videoSeconds(request, price))
  const inputCostNanos = fixed + nanosOfTokens(inputTokens, inputRate)
  const cost = inputCostNanos + nanosOfTokens(outputTokens, outputRate)
  if (cost > COST_NANOS_MAX) throw unsupportedUnderBudget(['model'], 'the call could cost more than a billion dollars')
  return { ...bound, costNanos: cost, inputCostNanos, outputRate }
}

const charactersOf = ({ operation, body }: InferenceRequest): number =>
  operation === 'audio.speech' && typeof body['input'] === 'string' ? Array.from(body['input']).length : 0

/** Returns the billable seconds of a video. */
function videoSeconds({ operation, body }: InferenceRequest, price: Price): number {
  if (operation !== 'videos' || price.rates.output_video_seconds === undefined) return 0
  const seconds = body['duration'] ?? body['seconds']
  if (seconds == null) throw unsupportedUnderBudget(['duration'], 'without it nobody knows how long the video is')
  return Math.ceil(Number(seconds) * MICROSECONDS) / MICROSECONDS
}

/**
 * Returns the most that a call may use. Leaves out routes without a known bound. Throws AiError, `unsupported_under_budget`, if no
 * route is left.
 *
 * needsCost: also leaves out routes without a price.
 */
export async function boundCall(
  asked: Asked,
  routes: readonly KeyedRoute[],
  { prices, at: time, needsCost }: { prices: Prices; at: Date; needsCost: boolean },
): Promise<CallBound> {
  const sent = measureInput(asked.request)
  const bounds: RouteBound[] = []
  let refusal: AiError | undefined
  for (const route of routes) {
    try {
      const price =
        route.keyOwner === 'local'
          ? null
          : (route.price ?? prices.priceOf(route.provider.id, route.upstreamModel, time) ?? null)
      const bound = await boundRoute(asked, sent, route, price)
      if (needsCost && price?.isPartial === true)
        throw unsupportedUnderBudget(
          ['model'],
          'it charges for what nobody counts here, such as pictures that it makes',
        )
      if (needsCost && bound.costNanos === null) throw unsupportedUnderBudget(['model'], 'its price is not known')
      bounds.push(bound)
    } catch (error) {
      if (!(error instanceof AiError)) throw error
      refusal ??= error
    }
  }
  if (bounds.length === 0) throw refusal ?? unsupportedUnderBudget(['model'], 'nobody offers it')
  const costs = bounds.map((bound) => bound.costNanos)
  return {
    routes: bounds,
    costNanos: costs.reduce(
      (most, nanos) => (most === null || nanos === null ? null : nanos > most ? nanos : most),
      0n,
    ),
    tokens: Math.max(...bounds.map(({ inputTokens, outputTokens }) => inputTokens + outputTokens)),
  }
}
