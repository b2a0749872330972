import { preparedOnce } from '@platform/runtime/prepared-once'
import { insertInto } from '@platform/runtime/insert-rows'
import { and, eq, inArray, sql } from 'drizzle-orm'
import type { Deps } from '../../../deps.ts'
import { aiBudgets, aiBudgetWindows, aiHolds } from '../table.ts'
import { lockUsage, type UsageScope } from './lock-usage.ts'
import { type BudgetTarget, type BudgetWindow, openWindows, targetName, windowAt } from './windows.ts'

/** More than so many calls wait for the next transaction. */
const TOGETHER_MAX = 256
const NANOS_PER_MICRO = 1_000n
/** A call that was admitted so often without its windows is not admitted at all. */
const TRIES_MAX = 5

/** What a call may use at most; null: nobody can say. */
export interface Hold extends UsageScope {
  /** The call's, and its event's. */
  id: string
  costNanos: bigint | null
  tokens: number | null
  /** What the operator lets the organization use of its keys in this month; null: the call is not limited by that. */
  allowanceNanos: bigint | null
  /** The row of the usage event, by the names of its columns, if nobody settles the call. */
  event: Readonly<Record<string, unknown>>
  expiresAt: Date
}

type Maximum = 'cost' | 'requests' | 'tokens' | 'request cost'

/** A maximum that a call would exceed. */
export interface ExceededMaximum {
  maximum: Maximum
  /** Whose budget it is, for people. */
  of: string
  /** Of what the maximum counts: nano-USD, requests or tokens. */
  limit: bigint
  /** What is left of it; not below 0. */
  remaining: bigint
}

export type Admission =
  | { kind: 'admitted' }
  | { kind: 'refused'; exceeded: readonly [ExceededMaximum, ...ExceededMaximum[]] }
  /** A maximum counts what nobody can say of the call. */
  | { kind: 'unbounded'; needs: 'cost' | 'tokens' }
type Outcome = Admission | { kind: 'unopened'; targets: readonly BudgetTarget[] }

type Budget = Pick<
  typeof aiBudgets.$inferSelect,
  | 'organizationId'
  | 'applicationId'
  | 'userId'
  | 'period'
  | 'maxCostMicros'
  | 'maxRequests'
  | 'maxTokens'
  | 'maxRequestCostMicros'
>
type Limit = Budget & { isAllowance: boolean; maxCostNanos: bigint | null }

const nanosOf = (micros: number | null): bigint | null => (micros === null ? null : BigInt(micros) * NANOS_PER_MICRO)

/** What limits a call: budgets of its organization that name nobody else, and the operator's allowance. */
function limitsOf(hold: Hold, budgets: readonly Budget[]): Limit[] {
  const { organizationId, applicationId, userId, allowanceNanos } = hold
  const limits = budgets
    .filter(
      (budget) =>
        budget.organizationId === organizationId &&
        (budget.applicationId === null || budget.applicationId === applicationId) &&
        (budget.userId === null || budget.userId === userId),
    )
    .map((budget): Limit => ({ ...budget, isAllowance: false, maxCostNanos: nanosOf(budget.maxCostMicros) }))
  if (allowanceNanos === null) return limits
  const nothing = { maxCostMicros: null, maxRequests: null, maxTokens: null, maxRequestCostMicros: null }
  return [...limits, { ...allowanceTarget(organizationId), ...nothing, maxCostNanos: allowanceNanos }]
}

/** The window that calls by the operator's key count in. */
export const allowanceTarget = (organizationId: string): BudgetTarget => ({
  organizationId,
  applicationId: null,
  userId: null,
  period: 'month',
  isAllowance: true,
})

/** The windows that a call counts in, as the function `ai_windows_of` of the database finds them. */
const windowsOf = (hold: Hold, windows: readonly BudgetWindow[]): BudgetWindow[] =>
  windows.filter(
    (window) =>
      window.organizationId === hold.organizationId &&
      window.startsAt.getTime() === windowAt(window.period, hold.startedAt).startsAt.getTime() &&
      (window.applicationId === null || window.applicationId === hold.applicationId) &&
      (window.userId === null || window.userId === hold.userId) &&
      (!window.isAllowance || hold.isByOperator),
  )

function whoseBudget({ isAllowance, applicationId, userId, period }: Limit): string {
  if (isAllowance) return 'the operator’s allowance of this month'
  const targets = [applicationId === null ? [] : ['the application'], userId === null ? [] : ['the user']].flat()
  return `${period === 'day' ? 'today’s' : 'this month’s'} budget of ${targets.length > 0 ? targets.join(' and ') : 'the organization'}`
}

/** Whether a call fits into what is left now. Windows are those of the call, locked. */
function judge(hold: Hold, limits: readonly Limit[], windows: readonly BudgetWindow[]): Outcome {
  const byName = new Map(windows.map((window) => [targetName(window), window]))
  const unopened = limits.filter((limit) => !byName.has(targetName(limit)))
  if (unopened.length > 0) return { kind: 'unopened', targets: unopened }
  const exceeded: ExceededMaximum[] = []
  for (const limit of limits) {
    const window = byName.get(targetName(limit))
    if (!window) continue
    const counts: [Maximum, bigint | null, bigint | null, bigint][] = [
      ['cost', limit.maxCostNanos, hold.costNanos, window.spentCostNanos + window.heldCostNanos],
      ['requests', bigintOf(limit.maxRequests), 1n, BigInt(window.spentRequests + window.heldRequests)],
      ['tokens', bigintOf(limit.maxTokens), bigintOf(hold.tokens), BigInt(window.spentTokens + window.heldTokens)],
      ['request cost', nanosOf(limit.maxRequestCostMicros), hold.costNanos, 0n],
    ]
    for (const [maximum, most, amount, used] of counts) {
      if (most === null) continue
      if (amount === null) return { kind: 'unbounded', needs: maximum === 'tokens' ? 'tokens' : 'cost' }
      // With a maximum of 0 nothing is admitted, not even what is free.
      if (used + amount <= most && most > 0n) continue
      exceeded.push({ maximum, of: whoseBudget(limit), limit: most, remaining: most > used ? most - used : 0n })
    }
  }
  const [first, ...others] = exceeded
  return first ? { kind: 'refused', exceeded: [first, ...others] } : { kind: 'admitted' }
}

const bigintOf = (value: number | null): bigint | null => (value === null ? null : BigInt(value))

const insertHolds = insertInto(aiHolds)

/** Admits calls one after the other, in one transaction, and holds what those that fit may use. */
async function admitAll({ db }: Pick<Deps, 'db'>, holds: readonly Hold[]): Promise<Outcome[]> {
  const organizationIds = [...new Set(holds.map(({ organizationId }) => organizationId))]
  return db.transaction(async (tx) => {
    // Sent at once: the second sees what was committed until the first had its locks.
    const [windows, budgets] = await Promise.all([
      lockUsage(tx, holds),
      tx
        .select()
        .from(aiBudgets)
        .where(and(inArray(aiBudgets.organizationId, organizationIds), eq(aiBudgets.enabled, true))),
    ])
    const admitted: Hold[] = []
    const outcomes = holds.map((hold) => {
      const counting = windowsOf(hold, windows)
      const outcome = judge(hold, limitsOf(hold, budgets), counting)
      if (outcome.kind !== 'admitted') return outcome
      admitted.push(hold)
      for (const window of counting) {
        window.heldCostNanos += hold.costNanos ?? 0n
        window.heldRequests += 1
        window.heldTokens += hold.tokens ?? 0
      }
      return outcome
    })
    if (admitted.length > 0)
      await tx.execute(sql`
        with held as (${insertHolds(admitted.map(toRow))} returning *)
        update ${aiBudgetWindows} w set held_cost_nanos = w.held_cost_nanos + d.cost, held_requests = w.held_requests + d.requests,
          held_tokens = w.held_tokens + d.tokens
        from (
          select c.id, sum(h.cost_nanos) as cost, count(*) as requests, sum(h.tokens) as tokens
          from held h, ai_windows_of(h.organization_id, h.application_id, h.user_id, h.is_by_operator, h.started_at) c
          group by c.id
        ) d where d.id = w.id`)
    return outcomes
  })
}

const toRow = ({ costNanos, tokens, ...hold }: Hold): typeof aiHolds.$inferInsert => ({
  ...hold,
  costNanos: costNanos ?? 0n,
  tokens: tokens ?? 0,
})

interface Waiting {
  hold: Hold
  tries: number
  done: (admission: Admission) => void
  fail: (error: unknown) => void
}

const admitter = preparedOnce((db) => {
  let waiting: Waiting[] = []
  let isUnderWay = false

  /** Makes windows that were missing; the calls that want them wait for the next transaction. */
  async function openAndRepeat(unopened: readonly (readonly [Waiting, readonly BudgetTarget[]])[]): Promise<void> {
    for (const [one, targets] of unopened) {
      try {
        if (one.tries >= TRIES_MAX) throw new Error('The windows of budgets could not be made')
        await openWindows({ db }, targets, one.hold.startedAt)
        waiting.push({ ...one, tries: one.tries + 1 })
      } catch (error) {
        one.fail(error)
      }
    }
    schedule()
  }

  async function admitNext(): Promise<void> {
    const together = waiting.slice(0, TOGETHER_MAX)
    waiting = waiting.slice(TOGETHER_MAX)
    try {
      const outcomes = await admitAll(
        { db },
        together.map(({ hold }) => hold),
      )
      const unopened: [Waiting, readonly BudgetTarget[]][] = []
      for (const [n, one] of together.entries()) {
        const outcome = outcomes[n]
        if (outcome?.kind === 'unopened') unopened.push([one, outcome.targets])
        else if (outcome) one.done(outcome)
      }
      void openAndRepeat(unopened)
    } catch (error) {
      for (const { fail } of together) fail(error)
    }
  }

  function schedule(): void {
    if (isUnderWay || waiting.length === 0) return
    isUnderWay = true
    setImmediate(() => {
      void admitNext().finally(() => {
        isUnderWay = false
        schedule()
      })
    })
  }

  return (hold: Hold) =>
    new Promise<Admission>((done, fail) => {
      waiting.push({ hold, tries: 1, done, fail })
      schedule()
    })
})

/**
 * Admits a call if it fits into every budget that matches it, and then holds what it may use at most, durably. The calls of a tick of
 * the event loop go to Postgres together. What was admitted has to be settled by its usage event (record-usage.ts).
 */
export const admitCall = ({ db }: Pick<Deps, 'db'>, hold: Hold): Promise<Admission> => admitter(db)(hold)
