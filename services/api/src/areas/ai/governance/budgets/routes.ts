import { z } from '@hono/zod-openapi'
import type { AiDeps } from '../../deps.ts'
import { endpoint } from '../../deps.ts'
import { id, instant, pathId, text } from '../../../../http/fields.ts'
import { reachOrganization } from '../../../tenancy/organizations/reach.ts'
import { reachReadable } from '../reach.ts'
import { type BudgetWarning, refusable } from './budget-warning.ts'
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
  maxCostMicros: maximum('Maximum cost of all calls, in millionths of a US dollar.', 5_000_000),
  maxRequests: maximum('Maximum number of requests to providers.', 10_000),
  maxTokens: maximum('Maximum number of input and output tokens.', 2_000_000),
  maxRequestCostMicros: maximum('Maximum cost of one request, in millionths of a US dollar.', 50_000),
}

const applicationId = id.nullable().openapi({ description: 'null for all calls, with or without an application.' })
const userId = text(255).nullable().openapi({
  description: 'null for all callers. API keys and Functions are not users.',
  example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20',
})

const used = z.object({
  costMicros: amount.openapi({ example: 1_250_000 }),
  requests: amount.openapi({ example: 412 }),
  tokens: amount.openapi({ example: 380_000 }),
})

const Budget = z
  .object({
    id: id.nullable().openapi({ description: 'null for the operator’s allowance.' }),
    organizationId: id,
    applicationId,
    userId,
    period,
    ...maxima,
    enabled: z.boolean(),
    source: z.enum(['organization', 'operator']).openapi({
      description: '`operator` for the allowance on the operator’s provider keys, which only the operator can change.',
    }),
    windowStart: instant,
    windowEnd: instant,
    spent: used.openapi({ description: 'Used by calls that have ended. Costs are rounded up.' }),
    held: used.openapi({ description: 'Reserved for calls in progress.' }),
    createdAt: instant.nullable(),
    updatedAt: instant.nullable(),
  })
  .openapi('AiBudget')

/** Members of the response that a client may send back: they are ignored. */
const ignored = Object.fromEntries(
  ['id', 'organizationId', 'windowStart', 'windowEnd', 'spent', 'held', 'createdAt', 'updatedAt'].map((name) => [
    name,
    z.unknown().optional().openapi({ description: 'Ignored.' }),
  ]),
)

const BudgetInput = z
  .strictObject({
    ...ignored,
    source: z.unknown().optional().openapi({ description: 'Items with `operator` are ignored.' }),
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
/** The three accepted shapes of the body (wire.md). */
const Body = z
  .union([
    list,
    z.strictObject({ budgets: list }),
    z.strictObject({ items: list, warnings: z.unknown().optional().openapi({ description: 'Ignored.' }) }),
  ])
  .openapi({ example: [{ maxCostMicros: 5_000_000, period: 'month' }] })

const Budgets = z.object({ items: z.array(Budget) })

const ShownWarning = z
  .object({
    model: z.string(),
    refuses: z.array(z.enum(refusable)).openapi({ description: '`everything` if not even text is let through.' }),
    message: z.string().openapi({ description: 'For people.' }),
  })
  .openapi('AiBudgetWarning', {
    example: {
      model: 'qwen3',
      refuses: ['pictures', 'files'],
      message: 'qwen3 refuses pictures and files under these budgets: what a picture costs at most is not known',
    },
  })

const ReplacedBudgets = z.object({
  ...Budgets.shape,
  warnings: z.array(ShownWarning).openapi({
    description:
      'What models of the organization refuse now, because its cost or its tokens cannot be bounded before the call. At most 100 models.',
  }),
})

const ofOrganization = { id: pathId('Organization') }

/** Finds what models of an organization refuse under budgets that limit its cost or its tokens. */
type FindWarnings = (
  deps: AiDeps,
  organizationId: string,
  limits: { cost: boolean; tokens: boolean },
) => Promise<BudgetWarning[]>

/** findWarnings: of the feature above this one, which knows the models. */
export const aiBudgetEndpoints = (findWarnings: FindWarnings) => [
  endpoint({
    operation: 'listAiBudgets',
    on: 'GET /organizations/{id}/ai-gateway/budgets',
    spec,
    tag,
    summary: 'List budgets',
    description:
      'All budgets, with what is spent and held in the current UTC day or month. If the operator lets the organization use some of its provider keys, that allowance is listed as well. An API key gets only the budgets that name its application.',
    actor: 'any',
    scope,
    params: ofOrganization,
    reach: (call) => reachReadable(call, undefined),
    returns: [200, Budgets],
    handle: async ({ deps, target }) => ({
      items: await listBudgets(deps, target.organizationId, target.applicationId),
    }),
  }),
  endpoint({
    operation: 'replaceAiBudgets',
    on: 'PUT /organizations/{id}/ai-gateway/budgets',
    spec,
    tag,
    summary: 'Replace budgets',
    description:
      'Replaces the whole set: send an array, or an object with `budgets` or `items`; `[]` clears it. The response of GET or PUT can be sent back unchanged. Every maximum of an enabled budget is a hard limit, and a call must fit into all budgets that match it. Replacing budgets does not reset what has been spent. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    body: Body,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, ReplacedBudgets],
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
      const items = await replaceBudgets(deps, actor, target, inputs)
      const enabled = inputs.filter((budget) => budget.enabled)
      const warnings = await findWarnings(deps, target.id, {
        cost: enabled.some(
          ({ maxCostMicros, maxRequestCostMicros }) => (maxCostMicros ?? maxRequestCostMicros) !== null,
        ),
        tokens: enabled.some(({ maxTokens }) => maxTokens !== null),
      })
      return { items, warnings }
    },
  }),
]
