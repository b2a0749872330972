import { isUnavailable } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { sql } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import type { UsageScope } from './release-holds.ts'
import { type BudgetTarget, openWindows } from './windows.ts'

/** Further calls wait for the next transaction. */
const TOGETHER_MAX = 256
/** A call whose windows are still missing after this many tries is rejected. */
const TRIES_MAX = 5

/** The most that a call may use; null: unknown. */
export interface Hold extends UsageScope {
  /** Id of the call and of its event. */
  id: string
  costNanos: bigint | null
  tokens: number | null
  /** The organization's monthly allowance of the operator's keys; null: does not limit the call. */
  allowanceNanos: bigint | null
  /** The row of the usage event, by column name, in case nobody settles the call. */
  event: Readonly<Record<string, unknown>>
  expiresAt: Date
}

type Maximum = 'cost' | 'requests' | 'tokens' | 'request cost'

/** A budget, as far as its own call may know it. */
type Limit = Pick<BudgetTarget, 'applicationId' | 'userId' | 'period' | 'isAllowance'>

/** A maximum that a call would exceed. */
export interface ExceededMaximum {
  maximum: Maximum
  /** The owner of the budget, for people. */
  of: string
  /** The remaining amount: nano-USD, requests or tokens; not below 0. */
  remaining: bigint
}

export type Admission =
  | { kind: 'admitted' }
  | { kind: 'refused'; exceeded: readonly [ExceededMaximum, ...ExceededMaximum[]] }
  /** A maximum counts something that is unknown for the call. */
  | { kind: 'unbounded'; needs: 'cost' | 'tokens' }
type Outcome = Admission | { kind: 'unopened'; targets: readonly BudgetTarget[] }

/** Returns the window in which calls with the operator's key count. */
export const allowanceTarget = (organizationId: string): BudgetTarget => ({
  organizationId,
  applicationId: null,
  userId: null,
  period: 'month',
  isAllowance: true,
})

function whoseBudget({ isAllowance, applicationId, userId, period }: Limit): string {
  if (isAllowance) return 'the operator’s allowance of this month'
  const target = [...(applicationId === null ? [] : ['the application']), ...(userId === null ? [] : ['the user'])]
  const of = target.length > 0 ? target.join(' and ') : 'the organization'
  return `${period === 'day' ? 'today’s' : 'this month’s'} budget of ${of}`
}

/** The result of the database function `admit_ai_calls` for one call (migrations/0019). */
type Answer =
  | { outcome: 'admitted'; details: null }
  | { outcome: 'refused'; details: readonly (Limit & { maximum: Maximum; remaining: string })[] }
  | { outcome: 'unbounded'; details: 'cost' | 'tokens' }
  | { outcome: 'unopened'; details: readonly Limit[] }

function outcomeOf({ organizationId }: Hold, answer: Answer): Outcome {
  switch (answer.outcome) {
    case 'admitted':
      return { kind: 'admitted' }
    case 'unbounded':
      return { kind: 'unbounded', needs: answer.details }
    case 'unopened':
      return { kind: 'unopened', targets: answer.details.map((limit) => ({ ...limit, organizationId })) }
    case 'refused': {
      const [first, ...others] = answer.details.map(({ maximum, remaining, ...limit }) => ({
        maximum,
        of: whoseBudget(limit),
        remaining: BigInt(remaining),
      }))
      if (!first) throw new Error('A call was refused without a reason')
      return { kind: 'refused', exceeded: [first, ...others] }
    }
  }
}

const columnsOfHold = (hold: Hold, n: number) => ({
  n,
  id: hold.id,
  organization_id: hold.organizationId,
  application_id: hold.applicationId,
  user_id: hold.userId,
  is_by_operator: hold.isByOperator,
  started_at: hold.startedAt,
  cost_nanos: hold.costNanos === null ? null : String(hold.costNanos),
  tokens: hold.tokens,
  allowance_nanos: hold.allowanceNanos === null ? null : String(hold.allowanceNanos),
  event: hold.event,
  expires_at: hold.expiresAt,
})

const admitStatement = lazyPrepared((db) =>
  db
    .select({ n: sql<number>`n`, outcome: sql<string>`outcome`, details: sql<unknown>`details` })
    .from(sql`admit_ai_calls(${sql.placeholder('calls')}::json)`)
    .prepare('admit_ai_calls'),
)

/** Admits calls one after the other, in one statement, and holds the maximum use of those that fit. */
async function admitAll({ db }: Pick<AiDeps, 'db'>, holds: readonly Hold[]): Promise<(Outcome | undefined)[]> {
  const calls = JSON.stringify(holds.map((hold, index) => columnsOfHold(hold, index + 1)))
  const rows = await admitStatement(db).execute({ calls })
  const outcomes = Array.from<Outcome | undefined>({ length: holds.length })
  for (const { n, ...answer } of rows) {
    const hold = holds[n - 1]
    if (hold) outcomes[n - 1] = outcomeOf(hold, answer as Answer)
  }
  return outcomes
}

interface Waiting {
  hold: Hold
  tries: number
  done: (admission: Admission) => void
  fail: (error: unknown) => void
}

const admitter = lazyPrepared((db) => {
  let waiting: Waiting[] = []
  let isUnderWay = false

  /** Creates missing windows; the calls that need them wait for the next transaction. */
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

  function admitNext(): Promise<void> {
    const together = waiting.slice(0, TOGETHER_MAX)
    waiting = waiting.slice(TOGETHER_MAX)
    return admitThese(together)
  }

  async function admitThese(together: readonly Waiting[]): Promise<void> {
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
      if (isUnavailable(error)) for (const { fail } of together) fail(error)
      else await admitOneByOne(together, error)
    }
  }

  /** Admits calls separately, so that a call that the database rejects does not fail the others. */
  async function admitOneByOne(together: readonly Waiting[], refusal: unknown): Promise<void> {
    if (together.length === 1) return together[0]?.fail(refusal)
    for (const one of together) await admitThese([one])
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
 * Admits a call if it fits into every budget that matches it, and then durably holds the most that it may use. The calls of a tick
 * of the event loop go to Postgres together. An admitted call has to be settled by its usage event (record-usage.ts).
 */
export const admitCall = ({ db }: Pick<AiDeps, 'db'>, hold: Hold): Promise<Admission> => admitter(db)(hold)
