import { AiError } from '@platform/errors/ai-error'
import { admitCall, type ExceededMaximum, type Hold } from '../../ai-governance/budgets/admit-call.ts'
import { usageRowOf } from '../../ai-governance/record-usage.ts'
import type { Call } from '../call.ts'
import type { InferenceRequest } from '../operations.ts'
import type { Placement } from '../place-call.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import type { Model } from '../providers/model.ts'
import type { ItemReference } from '../requests/item-references.ts'
import { canBeCapped, capOf, withOutputCap } from '../output-cap.ts'
import { unsupportedUnderBudget } from './unsupported-under-budget.ts'
import { boundCall, type HeldBound, type RouteBound } from './bound-call.ts'

/** Output tokens held for a call if neither it nor the model nor a policy sets a lower limit. */
const OUTPUT_TOKENS_DEFAULT = 4_096
const NANOS_PER_USD = 1e9
const MTOK = 1_000_000n
/** How long a hold outlasts the maximum duration of a call. */
const GRACE_MS = 300_000

interface Holding {
  /** As routed, including a policy's cap. */
  request: InferenceRequest
  model: Model
  routes: readonly KeyedRoute[]
  /** Input items that refer to data kept by the provider. */
  references: readonly ItemReference[]
  /** Tokens of the response that the request builds on; null: unknown. */
  earlierTokens: number | null
  /** Extra lifetime of the hold beyond the longest call, for results that are made later, such as videos. */
  keptMs: number
}

/** What a call's budgets need to know about it. */
interface Needs {
  cost: boolean
  tokens: boolean
}

/** A budget of cost or tokens may be created between reading the budgets and the admission. */
const TRIES_MAX = 3

/**
 * Admits a call under the budgets that match it, and under the operator's allowance; from then on it may use at most its hold.
 * Returns the request with the cap that was held, and the routes that it may take.
 *
 * Throws AiError: 429 `budget_exceeded`, 400 `unsupported_under_budget`.
 */
export async function holdCall(
  call: Call,
  placement: Placement,
  holding: Holding,
): Promise<{ request: InferenceRequest; routes: readonly KeyedRoute[] }> {
  const { deps } = call.exchange
  const { request, routes } = holding
  const isAllowed = routes[0]?.keyOwner === 'operator' && !placement.isEntitled
  const allowanceNanos = isAllowed ? deps.ai.catalog.freeCostNanos : null
  if (!placement.limits.any && allowanceNanos === null) return { request, routes }
  const needs = { cost: placement.limits.cost || allowanceNanos !== null, tokens: placement.limits.tokens }
  for (let n = 0; n < TRIES_MAX; n++) {
    const bounded = needs.cost || needs.tokens ? await bind(call, holding, needs) : { request, held: nothingHeld }
    const admission = await admitCall(deps, newHold(call, placement, holding, bounded.held, allowanceNanos))
    if (admission.kind === 'admitted') {
      call.held = bounded.held
      return { request: bounded.request, routes: bounded.held.bound?.routes.map(({ route }) => route) ?? routes }
    }
    if (admission.kind === 'refused') throw budgetExceeded(admission.exceeded, bounded.held)
    needs[admission.needs] = true
  }
  throw new Error('The budgets of a call changed again and again')
}

const nothingHeld: HeldBound = { bound: null, choices: 1 }

/** Returns the call's output cap in tokens: its own, or else the least of the model's, a policy's and 4,096. */
function outputCap(request: InferenceRequest, { maxOutputTokens }: Model): number {
  const tokens = capOf(request)?.tokens
  if (tokens !== undefined && request.capFrom !== 'policy') return tokens
  return Math.min(tokens ?? Infinity, maxOutputTokens ?? Infinity, OUTPUT_TOKENS_DEFAULT)
}

/** Determines the most that a call may use. Sets a missing cap. */
async function bind(
  call: Call,
  { request, model, routes, earlierTokens, references }: Holding,
  needs: Needs,
): Promise<{ request: InferenceRequest; held: HeldBound }> {
  const [reference] = references
  if (reference) throw unsupportedUnderBudget([reference.param], 'how long the item is is not known')
  const cap = canBeCapped(request) ? outputCap(request, model) : null
  const { n } = request.body
  const choices = typeof n === 'number' ? n : 1
  const capped = cap === null ? request : withOutputCap(request, cap, 'budget')
  const callToHold = { request: capped, model, cap, choices, earlierTokens }
  const { prices } = call.exchange.deps.ai
  const bound = await boundCall(callToHold, routes, { prices, at: call.startedAt, needsCost: needs.cost })
  return { request: capped, held: { bound, choices } }
}

function newHold(
  call: Call,
  placement: Placement,
  { routes, keptMs }: Holding,
  held: HeldBound,
  allowanceNanos: bigint | null,
): Hold {
  const { deps, requestId } = call.exchange
  const { organizationId, applicationId } = placement
  const [first] = held.bound?.routes.map(({ route }) => route) ?? routes
  return {
    id: requestId,
    organizationId,
    applicationId,
    userId: call.actor.kind === 'user' ? call.actor.userId : null,
    isByOperator: first?.keyOwner === 'operator',
    startedAt: call.startedAt,
    costNanos: held.bound && held.bound.costNanos,
    tokens: held.bound && held.bound.tokens,
    allowanceNanos,
    event: usageRowOf(call.eventIfLost(held, placement, first)),
    expiresAt: new Date(deps.now().getTime() + deps.ai.timings.totalMs + GRACE_MS + keptMs),
  }
}

const dollars = (nanos: bigint): string => `$${(Number(nanos) / NANOS_PER_USD).toFixed(6)}`

/** Formats an amount of a maximum for people. */
function shown({ maximum }: ExceededMaximum, amount: bigint): string {
  if (maximum === 'cost' || maximum === 'request cost') return dollars(amount)
  return `${amount} ${maximum}`
}

/** Returns the output tokens per choice with which a call would fit along a route; below 1: it cannot fit. */
function fittingTokens({ maximum, remaining }: ExceededMaximum, route: RouteBound, choices: number): number {
  if (maximum === 'requests') return 0
  const most = BigInt(choices)
  if (maximum === 'tokens') return Number((remaining - BigInt(route.inputTokens)) / most)
  const { inputCostNanos, outputRate } = route
  if (outputRate === 0n) return 0
  return Number(((remaining - inputCostNanos) * MTOK) / outputRate / most)
}

/** Makes the 429 of a call that does not fit; the gateway never shrinks a call to make it fit. */
function budgetExceeded(
  exceeded: readonly [ExceededMaximum, ...ExceededMaximum[]],
  { bound, choices }: HeldBound,
): AiError {
  const [first] = exceeded
  const { maximum, of, remaining } = first
  const needed =
    maximum === 'requests' ? 1n : maximum === 'tokens' ? BigInt(bound?.tokens ?? 0) : (bound?.costNanos ?? 0n)
  const fitting = bound
    ? Math.min(...exceeded.flatMap((each) => bound.routes.map((route) => fittingTokens(each, route, choices))))
    : 0
  const isCapHelpful = fitting >= 1
  const cap = isCapHelpful ? `the largest output cap that would fit is ${fitting} tokens` : 'no output cap would fit'
  const what =
    maximum === 'request cost'
      ? `One request may cost ${dollars(remaining)} by ${of}`
      : `Of ${of} ${shown(first, remaining)} remain`
  return new AiError(
    429,
    'insufficient_quota',
    'budget_exceeded',
    `${what}; this request would hold ${shown(first, needed)}; ${cap}`,
    {
      headers: { 'x-should-retry': 'false' },
    },
  )
}
