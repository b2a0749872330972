import { AiError } from '@platform/errors/ai-error'
import { admitCall, type ExceededMaximum, type Hold } from '../../governance/budgets/admit-call.ts'
import { usageRowOf } from '../../governance/record-usage.ts'
import type { Call } from '../call.ts'
import type { InferenceRequest } from '../operations.ts'
import type { Placement } from '../place-call.ts'
import { canBeCapped } from '../output-cap.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import { type Asked, boundCall, type HeldBound, type RouteBound } from './bound-call.ts'

const NANOS_PER_USD = 1e9
const MTOK = 1_000_000n
/** How long a hold outlasts the maximum duration of a call. */
const GRACE_MS = 300_000

interface Holding extends Asked {
  routes: readonly KeyedRoute[]
  /** Extra lifetime of the hold beyond the longest call, for results that are made later, such as videos. */
  keptMs: number
}

/** A budget of cost or tokens may be created between reading the budgets and the admission. */
const TRIES_MAX = 3

/**
 * Admits a call under the budgets that match it, and under the operator's allowance; from then on it may use at most its hold.
 * Returns the request as it was held, with the cap that this needs, and the routes that it may take.
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
    const bounding = { prices: deps.ai.prices, at: call.startedAt, needs }
    const held = { bound: needs.cost || needs.tokens ? await boundCall(holding, routes, bounding) : null }
    const admission = await admitCall(deps, newHold(call, placement, holding, held, allowanceNanos))
    if (admission.kind === 'admitted') {
      call.held = held
      if (!held.bound) return { request, routes }
      return { request: held.bound.request, routes: held.bound.routes.map(({ route }) => route) }
    }
    if (admission.kind === 'refused') throw budgetExceeded(admission.exceeded, held)
    needs[admission.needs] = true
  }
  throw new Error('The budgets of a call changed again and again')
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

const numbered = (amount: number | bigint, noun: string): string =>
  `${amount} ${noun}${BigInt(amount) === 1n ? '' : 's'}`

/** Formats an amount of a maximum for people. */
function shown({ maximum }: ExceededMaximum, amount: bigint): string {
  if (maximum === 'cost' || maximum === 'request cost') return dollars(amount)
  return numbered(amount, maximum === 'requests' ? 'request' : 'token')
}

/** Returns the output tokens per choice with which a call would fit along a route; below 1: it cannot; Infinity: any number. */
function fittingTokens({ maximum, remaining }: ExceededMaximum, route: RouteBound, choices: number): number {
  if (maximum === 'requests') return 0
  const most = BigInt(choices)
  if (maximum === 'tokens') return Number((remaining - BigInt(route.inputTokens)) / most)
  const { inputCostNanos, outputRate } = route
  if (outputRate === 0n) return inputCostNanos <= remaining ? Infinity : 0
  return Number(((remaining - inputCostNanos) * MTOK) / outputRate / most)
}

/** Returns what a message says about output caps; undefined where none would change anything. */
function adviceOn(exceeded: readonly ExceededMaximum[], { bound }: HeldBound): string | undefined {
  if (!bound || !canBeCapped(bound.request)) return undefined
  const isOutputPriced = bound.routes.some(({ outputRate }) => outputRate > 0n)
  if (!exceeded.some(({ maximum }) => maximum === 'tokens' || (maximum !== 'requests' && isOutputPriced)))
    return undefined
  const fitting = Math.min(
    ...exceeded.flatMap((each) => bound.routes.map((route) => fittingTokens(each, route, bound.choices))),
  )
  if (fitting === Infinity) return undefined
  return fitting < 1
    ? 'no output cap would fit'
    : `the largest output cap that would fit is ${numbered(fitting, 'token')}`
}

/** Makes the 429 of a call that does not fit; the gateway never shrinks a call to make it fit. */
function budgetExceeded(exceeded: readonly [ExceededMaximum, ...ExceededMaximum[]], held: HeldBound): AiError {
  const [first] = exceeded
  const { maximum, of, remaining } = first
  const { bound } = held
  const needed =
    maximum === 'requests' ? 1n : maximum === 'tokens' ? BigInt(bound?.tokens ?? 0) : (bound?.costNanos ?? 0n)
  const isOne = maximum === 'tokens' && remaining === 1n
  const what =
    maximum === 'request cost'
      ? `One request may cost ${dollars(remaining)} by ${of}`
      : `Of ${of} ${shown(first, remaining)} ${isOne ? 'remains' : 'remain'}`
  const advice = adviceOn(exceeded, held)
  return new AiError(
    429,
    'insufficient_quota',
    'budget_exceeded',
    `${what}; this request would hold ${shown(first, needed)}${advice === undefined ? '' : `; ${advice}`}`,
    { headers: { 'x-should-retry': 'false' } },
  )
}
