import { z } from '@hono/zod-openapi'
import { endpoint } from '../../../http/endpoint.ts'
import { id, instant, pathId, text } from '../../../http/fields.ts'
import { reachOrganization } from '../../organizations/reach.ts'
import { listBudgets, replaceBudgets } from './budgets.ts'

const tag = 'AI governance'
const spec = 'A §4 AI gateway, D90'
const scope = 'network:ai_gateway:budgets'
const BUDGETS_MAX = 100

const amount = z.number().int().min(0)
const maximum = (description: string, example: number) =>
  amount.max(Number.MAX_SAFE_INTEGER).nullable().openapi({ description, example })
const period = z.enum(['day', 'month']).openapi({ description: 'The UTC day or month.' })

const maxima = {
  maxCostMicros: maximum('What providers may charge for all calls, in millionths of a US dollar.', 5_000_000),
  maxRequests: maximum('How many requests may be sent to providers.', 10_000),
  maxTokens: maximum('How many tokens may be used, input and output together.', 2_000_000),
  maxRequestCostMicros: maximum('What one request may cost at most, in millionths of a US dollar.', 50_000),
}

const applicationId = id.nullable().openapi({ description: 'null: calls of all applications, and of none.' })
const userId = text(255).nullable().openapi({
  description: 'null: calls of everybody. API keys and Functions are no users.',
  example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20',
})

const used = z.object({
  costMicros: amount.openapi({ example: 1_250_000 }),
  requests: amount.openapi({ example: 412 }),
  tokens: amount.openapi({ example: 380_000 }),
})

const Budget = z
  .object({
    id: id.nullable().openapi({ description: 'null of the allowance of the operator.' }),
    organizationId: id,
    applicationId,
    userId,
    period,
    ...maxima,
    enabled: z.boolean(),
    source: z.enum(['organization', 'operator']).openapi({
      description: '`operator`: what the operator lets the organization use of its keys; nobody else can change it.',
    }),
    windowStart: instant,
    windowEnd: instant,
    spent: used.openapi({ description: 'By calls that have ended. Costs are rounded up.' }),
    held: used.openapi({ description: 'What calls under way may still use at most.' }),
    createdAt: instant.nullable(),
    updatedAt: instant.nullable(),
  })
  .openapi('AiBudget')

/** Members of an answer that a client may send back: they change nothing. */
const ignored = Object.fromEntries(
  ['id', 'organizationId', 'windowStart', 'windowEnd', 'spent', 'held', 'createdAt', 'updatedAt'].map((name) => [
    name,
    z.unknown().optional().openapi({ description: 'Ignored.' }),
  ]),
)

const BudgetInput = z
  .strictObject({
    ...ignored,
    source: z.unknown().optional().openapi({ description: '`operator`: the item is passed over.' }),
    applicationId: applicationId.optional(),
    userId: userId.optional(),
    period: period.default('month'),
    maxCostMicros: maxima.maxCostMicros.optional(),
    maxRequests: maxima.maxRequests.optional(),
    maxTokens: maxima.maxTokens.optional(),
    maxRequestCostMicros: maxima.maxRequestCostMicros.optional(),
    enabled: z.boolean().default(true),
  })
  .refine(
    (budget) => Object.keys(maxima).some((name) => budget[name as keyof typeof maxima] != null),
    'Expected at least one maximum',
  )
  .openapi('AiBudgetInput', { example: { maxCostMicros: 5_000_000, period: 'month' } })

const list = z.array(BudgetInput).max(BUDGETS_MAX)
/** The three forms of the body (wire.md). */
const Body = z
  .union([list, z.strictObject({ budgets: list }), z.strictObject({ items: list })])
  .openapi({ example: [{ maxCostMicros: 5_000_000, period: 'month' }] })

const Budgets = z.object({ items: z.array(Budget) })

const ofOrganization = { id: pathId('Organization') }

export const aiBudgetEndpoints = [
  endpoint({
    operation: 'listAiBudgets',
    on: 'GET /organizations/{id}/ai-gateway/budgets',
    spec,
    tag,
    summary: "List an organization's AI budgets",
    description:
      'All of them, with what is spent and held in the present UTC day or month. Where the operator lets the organization use some of its provider keys, that allowance is one more item.',
    actor: 'user',
    scope,
    params: ofOrganization,
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, Budgets],
    handle: async ({ deps, target }) => ({ items: await listBudgets(deps, target) }),
  }),
  endpoint({
    operation: 'replaceAiBudgets',
    on: 'PUT /organizations/{id}/ai-gateway/budgets',
    spec,
    tag,
    summary: "Replace an organization's AI budgets",
    description:
      'Takes the whole set, as an array or in `budgets` or `items`; `[]` clears it. The answer of GET can be sent back as it is. Every enabled budget is a hard limit of each maximum that it has, and a call must fit into all that match it. What was spent stays spent, whatever is set. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    body: Body,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, Budgets],
    fails: [400, 409],
    handle: async ({ deps, actor, target, body }) => {
      const all = Array.isArray(body) ? body : 'budgets' in body ? body.budgets : body.items
      const own = all.filter(({ source }) => source !== 'operator')
      const inputs = own.map((budget) => ({
        applicationId: budget.applicationId ?? null,
        userId: budget.userId ?? null,
        period: budget.period,
        maxCostMicros: budget.maxCostMicros ?? null,
        maxRequests: budget.maxRequests ?? null,
        maxTokens: budget.maxTokens ?? null,
        maxRequestCostMicros: budget.maxRequestCostMicros ?? null,
        enabled: budget.enabled,
      }))
      return { items: await replaceBudgets(deps, actor, target, inputs) }
    },
  }),
]
