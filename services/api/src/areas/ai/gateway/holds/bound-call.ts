import { costNanos } from '../../governance/cost.ts'
import type { CountedUnit, Price, Prices, Rate } from '../../governance/prices.ts'
import { noUsage } from '@platform/ai-protocols/usage'
import type { InferenceRequest } from '../operations.ts'
import { canBeCapped, capOf, withOutputCap } from '../output-cap.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import type { Model } from '../providers/model.ts'
import type { ItemReference } from '../requests/item-references.ts'
import { measureInput, type SentInput } from './input-bound.ts'
import { recordingSeconds } from './recording-seconds.ts'
import { UnsupportedUnderBudget } from './unsupported-under-budget.ts'

/** Output tokens held for a call if neither it nor the model nor a policy sets a lower limit. */
const OUTPUT_TOKENS_DEFAULT = 4_096

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

/** What the budgets of a call limit, besides the number of requests. */
export interface Needs {
  cost: boolean
  tokens: boolean
}

/** The most that a call may use along one route. */
export interface RouteBound {
  route: KeyedRoute
  /** null: unknown. */
  price: Price | null
  /** False if it costs nothing and nothing else is limited: its tokens are unknown then, and here 0. */
  isMeasured: boolean
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
  /** As it is to be sent: with a cap of its output if some route needs one. */
  request: InferenceRequest
  routes: readonly RouteBound[]
  /** null: unknown for some route. */
  costNanos: bigint | null
  /** null: not measured for some route. */
  tokens: number | null
  /** Number of answers requested at once. */
  choices: number
}

/** The hold of an admitted call. */
export interface HeldBound {
  /** null: only the request is counted, since no maximum limits anything else. */
  bound: CallBound | null
}

/** The contents of a call. */
export interface Asked {
  /** As routed, including a policy's cap. */
  request: InferenceRequest
  model: Model
  /** Tokens of the response that the request builds on; null: unknown. */
  earlierTokens: number | null
  /** Input items that refer to data kept by the provider. */
  references: readonly ItemReference[]
}

/** The limits of a call's output. */
interface Output {
  /** Tokens of one choice; null if the operation has no cap. */
  cap: number | null
  choices: number
}

/** Returns a price with the highest rate of each unit, over all tiers that this many input tokens may reach. */
function dearest(price: Price, inputTokens: number): Price {
  const rates = Object.entries(price.rates).map(([unit, { base, tiers }]): [string, Rate] => {
    const reached = tiers.filter(({ above }) => inputTokens > above)
    return [unit, { base: highest([base, ...reached.map(({ nanos }) => nanos)]), tiers: [] }]
  })
  return { ...price, rates: Object.fromEntries(rates) }
}

const highest = (amounts: readonly bigint[]): bigint =>
  amounts.reduce((most, nanos) => (nanos > most ? nanos : most), 0n)

/** Returns the highest base rate of some units. */
const rateOf = ({ rates }: Price, units: readonly CountedUnit[]): bigint =>
  highest(units.map((unit) => rates[unit]?.base ?? 0n))

/** Returns the cost of tokens at a rate per million, rounded up. */
export const nanosOfTokens = (tokens: number, rate: bigint): bigint => (BigInt(tokens) * rate + MTOK - 1n) / MTOK

const hasAny = (price: Price, units: readonly CountedUnit[]): boolean =>
  units.some((unit) => price.rates[unit] !== undefined)

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

/** Operations that send their whole input to the model at once. Sound to transcribe may be sent in pieces, each of a window. */
const windowed: ReadonlySet<string> = new Set<InferenceRequest['operation']>(['chat.completions', 'responses'])
/** Published windows are rounded: 1,000,000 for 1,048,576, or 128,000 for 131,072. */
const PUBLISHED_PERCENT = 105

/** The most input tokens that a model reads. */
interface Window {
  tokens: number
  /** True if the operator states it. A published one may be out of date, so it never bounds what can be counted. */
  isStated: boolean
}

/** Returns the context window of a route's model; undefined: unknown. */
function windowOf(
  { request, model }: Asked,
  { provider, upstreamModel }: KeyedRoute,
  prices: Prices,
): Window | undefined {
  if (!windowed.has(request.operation)) return undefined
  if (model.contextWindow !== null) return { tokens: model.contextWindow, isStated: true }
  const published = prices.contextWindowOf(provider.id, upstreamModel)
  return published === undefined
    ? undefined
    : { tokens: Math.ceil((published * PUBLISHED_PERCENT) / 100), isStated: false }
}

/** Returns the refusal of the first content whose tokens along a route are unknown; undefined: all are known. */
function findUnsized(
  { earlierTokens, references }: Asked,
  { images, files, sounds, unsized }: SentInput,
  { bounds }: KeyedRoute,
): UnsupportedUnderBudget | undefined {
  if (earlierTokens === null)
    return new UnsupportedUnderBudget(['previous_response_id'], 'how long that response is is not known')
  const [reference] = references
  if (reference) return new UnsupportedUnderBudget([reference.param], 'how long the item is is not known')
  const kinds = [
    [images, bounds.image, 'picture'],
    [files, bounds.file, 'file'],
    [sounds, bounds.file, 'recording'],
  ] as const
  for (const [[first], bound, what] of kinds)
    if (first && bound === undefined)
      return new UnsupportedUnderBudget(first, `what a ${what} costs at most is not known`)
  const [other] = unsized
  return other && new UnsupportedUnderBudget(other.path, other.why)
}

/** Returns the most input tokens along a route. Throws for content that neither a bound nor a context window limits. */
function inputTokensOf(
  asked: Asked,
  sent: SentInput,
  route: KeyedRoute,
  recordingTokens: number,
  prices: Prices,
): number {
  const { bounds, keyOwner } = route
  const own = sent.textBytes + ADDED_TOKENS + (sent.hasTools ? ADDED_TOOL_TOKENS : 0) + recordingTokens
  // The platform's own models read text alone, of any length.
  if (keyOwner === 'local') return own
  const parts = sent.images.length * (bounds.image ?? 0) + (sent.files.length + sent.sounds.length) * (bounds.file ?? 0)
  const sized = own + parts + (asked.earlierTokens ?? 0)
  const window = windowOf(asked, route, prices)
  const unsized = findUnsized(asked, sent, route)
  if (unsized && !window) throw unsized
  if (window?.isStated === true) return unsized ? window.tokens : Math.min(sized, window.tokens)
  return unsized && window ? Math.max(sized, window.tokens) : sized
}

/** Returns the call's output cap in tokens: its own, or else the least of the model's, a policy's and 4,096. */
function outputCap(request: InferenceRequest, { maxOutputTokens }: Model): number {
  const tokens = capOf(request)?.tokens
  if (tokens !== undefined && request.capFrom !== 'policy') return tokens
  return Math.min(tokens ?? Infinity, maxOutputTokens ?? Infinity, OUTPUT_TOKENS_DEFAULT)
}

/** Returns the maximum output tokens along a route. Throws if unknown. */
function outputTokensOf(
  { request, model }: Asked,
  { cap, choices }: Output,
  price: Price | null,
  { keyOwner }: KeyedRoute,
): number {
  if (request.operation === 'videos') return 0
  // Without a cap in the request, the model's own limit applies.
  const perChoice = cap ?? model.maxOutputTokens
  if (perChoice !== null && perChoice > CAP_MAX)
    throw new UnsupportedUnderBudget(['model'], `a cap of more than ${CAP_MAX} tokens bounds nothing`)
  if (perChoice !== null) return perChoice * choices
  if (keyOwner !== 'local' && (price === null || hasAny(price, outputUnits)))
    throw new UnsupportedUnderBudget(['model'], 'how long its answers are at most is not known')
  return 0
}

/** True if nothing that a call uses along a route costs anything, whatever it is. */
function isFree({ keyOwner }: KeyedRoute, price: Price | null): boolean {
  if (price === null) return keyOwner === 'local'
  const rates = Object.values(price.rates)
  return !price.isPartial && rates.every(({ base, tiers }) => base === 0n && tiers.every(({ nanos }) => nanos === 0n))
}

const unmeasured = (route: KeyedRoute, price: Price | null): RouteBound => ({
  route,
  price,
  isMeasured: false,
  inputTokens: 0,
  outputTokens: 0,
  costNanos: 0n,
  inputCostNanos: 0n,
  outputRate: 0n,
})

/** Throws UnsupportedUnderBudget. */
async function boundRoute(
  asked: Asked,
  output: Output,
  sent: SentInput,
  route: KeyedRoute,
  price: Price | null,
  prices: Prices,
): Promise<RouteBound> {
  const { request } = asked
  const unknown = sent.unknown.find((name) => !route.provider.unpriced.includes(name))
  if (unknown !== undefined) throw new UnsupportedUnderBudget([unknown], 'what it costs is not known')
  const recording = await recordingBound(asked, route)
  if (isTimed(price) ? recording.seconds === undefined : recording.tokens === undefined)
    throw new UnsupportedUnderBudget(['file'], 'how long the recording is cannot be told; uncompressed WAV says it')
  const inputTokens = inputTokensOf(asked, sent, route, recording.tokens ?? 0, prices)
  const outputTokens = outputTokensOf(asked, output, price, route)
  const bound = { route, price, isMeasured: true, inputTokens, outputTokens }
  if (price === null)
    return { ...bound, costNanos: route.keyOwner === 'local' ? 0n : null, inputCostNanos: 0n, outputRate: 0n }
  // What the provider kept may be sound, too.
  const mayHaveAudio = sent.mayHaveAudio || asked.earlierTokens !== 0 || asked.references.length > 0
  const most = dearest(price, inputTokens)
  const inputRate = rateOf(most, mayHaveAudio ? [...inputUnits, 'input_audio_mtok'] : inputUnits)
  const outputRate = rateOf(most, outputUnits)
  const counted = { ...noUsage, characters: charactersOf(request), audioSeconds: recording.seconds ?? 0 }
  const fixed = costNanos(most, counted, videoSeconds(request, price))
  const inputCostNanos = fixed + nanosOfTokens(inputTokens, inputRate)
  const cost = inputCostNanos + nanosOfTokens(outputTokens, outputRate)
  if (cost > COST_NANOS_MAX)
    throw new UnsupportedUnderBudget(['model'], 'the call could cost more than a billion dollars')
  return { ...bound, costNanos: cost, inputCostNanos, outputRate }
}

const charactersOf = ({ operation, body }: InferenceRequest): number =>
  operation === 'audio.speech' && typeof body['input'] === 'string' ? Array.from(body['input']).length : 0

/** Returns the billable seconds of a video. */
function videoSeconds({ operation, body }: InferenceRequest, price: Price): number {
  if (operation !== 'videos' || price.rates.output_video_seconds === undefined) return 0
  const seconds = body['duration'] ?? body['seconds']
  if (seconds == null) throw new UnsupportedUnderBudget(['duration'], 'without it nobody knows how long the video is')
  return Math.ceil(Number(seconds) * MICROSECONDS) / MICROSECONDS
}

/** Returns the request with what the bound of a call relies on: its cap, and the tier that has the known price. */
function boundRequest(request: InferenceRequest, cap: number | null, needs: Needs): InferenceRequest {
  const capped = cap === null ? request : withOutputCap(request, cap, 'budget')
  return needs.cost ? { ...capped, serviceTier: 'default' } : capped
}

/** Throws UnsupportedUnderBudget for a route whose cost cannot be told, whatever is sent along it. */
function requireKnownPrice({ keyOwner }: KeyedRoute, price: Price | null): void {
  if (price === null && keyOwner !== 'local') throw new UnsupportedUnderBudget(['model'], 'its price is not known')
  if (price?.isPartial === true)
    throw new UnsupportedUnderBudget(
      ['model'],
      'it charges for what nobody counts here, such as pictures that it makes',
    )
}

/**
 * Returns the most that a call may use. Leaves out routes without a known bound, and with `needs.cost` those without a price. Where
 * only cost is limited a free route takes anything: nothing is measured, and no cap set, for its sake. Throws
 * UnsupportedUnderBudget if no route is left.
 */
export async function boundCall(
  asked: Asked,
  routes: readonly KeyedRoute[],
  { prices, at: time, needs }: { prices: Prices; at: Date; needs: Needs },
): Promise<CallBound> {
  const { request, model } = asked
  const { n } = request.body
  const choices = typeof n === 'number' ? n : 1
  const cap = canBeCapped(request) ? outputCap(request, model) : null
  let sent: SentInput | undefined
  const bounds: RouteBound[] = []
  let refusal: UnsupportedUnderBudget | undefined
  for (const route of routes) {
    const price =
      route.keyOwner === 'local'
        ? null
        : (route.price ?? prices.priceOf(route.provider.id, route.upstreamModel, time) ?? null)
    if (!needs.tokens && isFree(route, price)) {
      bounds.push(unmeasured(route, price))
      continue
    }
    try {
      if (needs.cost) requireKnownPrice(route, price)
      sent ??= measureInput(request)
      bounds.push(await boundRoute(asked, { cap, choices }, sent, route, price, prices))
    } catch (error) {
      if (!(error instanceof UnsupportedUnderBudget)) throw error
      refusal ??= error
    }
  }
  if (bounds.length === 0) throw refusal ?? new UnsupportedUnderBudget(['model'], 'nobody offers it')
  const measured = bounds.filter(({ isMeasured }) => isMeasured)
  const costs = bounds.map((bound) => bound.costNanos)
  return {
    request: measured.length > 0 ? boundRequest(request, cap, needs) : request,
    routes: bounds,
    costNanos: costs.reduce(
      (most, nanos) => (most === null || nanos === null ? null : nanos > most ? nanos : most),
      0n,
    ),
    tokens:
      measured.length < bounds.length
        ? null
        : Math.max(...measured.map(({ inputTokens, outputTokens }) => inputTokens + outputTokens)),
    choices,
  }
}
