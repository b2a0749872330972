import { totalInput, type Usage } from '@platform/ai-protocols/usage'
import { costNanos } from '../../governance/cost.ts'
import type { UsageEvent } from '../../governance/record-usage.ts'
import type { InferenceOperation } from '../operations.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import { type HeldBound, nanosOfTokens, type RouteBound } from './bound-call.ts'

/** Tokens of one answer that a provider may have generated beyond those received before the client left. */
const UNSEEN_TOKENS = 256

interface Amounts {
  costNanos: bigint
  tokens: number
}

/** Bytes of text, from which usage is estimated. */
export interface Estimate {
  inputBytes: number
  outputBytes: number
  /** Usage reported before the answer ended early. Its input is used as is. */
  usageSoFar?: Usage | undefined
}

/** How much of an answer is known: all, what arrived until the client left, or not even whether there was one. */
export type Known = 'whole' | 'until left' | 'nothing'

interface CountedCall {
  operation: InferenceOperation
  /** The route of the answer, or of the last request. */
  route: KeyedRoute | undefined
  wasAsked: boolean
  held: HeldBound | undefined
}

/** The outcome of a call, as far as budgets need it. */
interface Ending {
  /** Usage according to the event. */
  charged: Amounts
  isPending: boolean
  /** True if the provider reported the usage. */
  isTold: boolean
  estimate: Estimate | undefined
  known: Known
}

type Counted = Pick<UsageEvent, 'countedRequests' | 'countedTokens' | 'countedCostNanos'>

const counted = ({ costNanos: nanos, tokens }: Amounts): Counted => ({
  countedRequests: 1,
  countedTokens: tokens,
  countedCostNanos: nanos,
})

/** Limits amounts to the hold, but never below the charged amounts. */
const within = (held: Amounts, amounts: Amounts, charged: Amounts): Amounts => {
  const costWithin = amounts.costNanos < held.costNanos ? amounts.costNanos : held.costNanos
  return {
    costNanos: costWithin > charged.costNanos ? costWithin : charged.costNanos,
    tokens: Math.max(Math.min(amounts.tokens, held.tokens), charged.tokens),
  }
}

/** True if audio is charged by something that its text does not show: its length, or tokens. */
function isSoundUntold(call: CountedCall): boolean {
  if (call.operation !== 'audio.speech' && call.operation !== 'audio.transcriptions') return false
  const bound = call.held?.bound?.routes.find(({ route }) => route === call.route)
  if (bound?.price === null) return bound.route.keyOwner !== 'local'
  const units = Object.keys(bound?.price?.rates ?? {})
  return units.some((unit) => unit !== 'input_mchars' && unit !== 'requests_kcount')
}

/** The maximum cost of an answer until its client left: its input as reported or else as held, plus the given output. */
function untilLeft(route: RouteBound, outputTokens: number, told: Usage | undefined): Amounts {
  if (told && route.price) {
    const usage = { ...told, outputTokens, reasoningTokens: 0, outputAudioTokens: 0 }
    return { costNanos: costNanos(route.price, usage), tokens: totalInput(told) + outputTokens }
  }
  return {
    costNanos: route.inputCostNanos + nanosOfTokens(outputTokens, route.outputRate),
    tokens: route.inputTokens + outputTokens,
  }
}

/**
 * Returns what budgets count for an ended call: the charge if it is known, and otherwise more, up to the hold, so that no budget
 * counts less than a provider may bill. A call that was never sent to a provider counts nothing.
 */
export function countedUsage(call: CountedCall, { charged, isPending, isTold, estimate, known }: Ending): Counted {
  // A video is counted once it is made; until then its hold represents it.
  if (!call.wasAsked || isPending) return { countedRequests: 0, countedTokens: 0, countedCostNanos: 0n }
  const bound = call.held?.bound
  if (!bound || isTold || !estimate) return counted(charged)
  // If no budget limits tokens, the held ones may be unknown; the event's own are counted then.
  const held = { costNanos: bound.costNanos ?? 0n, tokens: bound.tokens ?? 0 }
  if (known === 'nothing' || isSoundUntold(call)) return counted(within(held, held, charged))
  if (known === 'whole') return counted(charged)
  const route = bound.routes.find((each) => each.route === call.route)
  if (!route) return counted(within(held, held, charged))
  const outputTokens = estimate.outputBytes + UNSEEN_TOKENS * bound.choices
  return counted(within(held, untilLeft(route, outputTokens, estimate.usageSoFar), charged))
}
