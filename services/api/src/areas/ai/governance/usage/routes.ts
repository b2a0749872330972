import { z } from '@hono/zod-openapi'
import type { Actor } from '../../../../http/actor.ts'
import type { AiDeps } from '../../deps.ts'
import { endpoint } from '../../deps.ts'
import { csvFile } from '../../../../http/endpoint.ts'
import { id, instant, pathId, shown, text } from '../../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../../http/pages.ts'
import { reachReadable } from '../reach.ts'
import { eventsPage } from './events-page.ts'
import { exportEvents } from './export-events.ts'
import { summarizeUsage } from './summary.ts'
import { statuses, type UsageFilters } from './usage-rows.ts'

const tag = 'AI governance'
const spec = 'A §4 AI gateway, D90'
const scope = 'network:ai_gateway:usage'
const EVENTS_MAX = 500
const kept = 'Calls are kept for 13 months, unless the operator chose another time; their totals in the summary stay.'
const seenBy =
  'With the role MEMBER you see your own calls; OWNER and ADMIN see all, including those of API keys and Functions. An API key sees all calls of its own application. Unknown query parameters are refused with 422.'

const amount = z.number().int().min(0)
const count = (example: number) => amount.openapi({ example })
const micros = amount.openapi({ description: 'Millionths of a US dollar, rounded up.', example: 1_250 })
const figures = {
  requestCount: count(1_200),
  successCount: count(1_190),
  errorCount: count(10),
  inputTokens: amount.openapi({ description: 'Includes cached and audio tokens.', example: 480_000 }),
  outputTokens: amount.openapi({ description: 'Includes reasoning and audio tokens.', example: 120_000 }),
  totalTokens: count(600_000),
  billableCostMicros: micros,
}
const BreakdownRow = z.object({
  label: shown('openai/gpt-5').openapi({
    description:
      '`unknown` for calls without one; among users, `none` for API keys and Functions; `other` for everything beyond the first 100.',
  }),
  requests: count(1_200),
  tokens: count(600_000),
  inputTokens: count(480_000),
  outputTokens: count(120_000),
  costMicros: micros,
})
const breakdown = z.array(BreakdownRow).openapi({ description: 'Most expensive first.' })

const Summary = z
  .object({
    summary: z.object({ ...figures, avgLatencyMs: count(840) }),
    byModel: breakdown,
    byProvider: breakdown,
    byUser: breakdown,
    series: z
      .array(z.object({ at: instant, ...figures }))
      .openapi({ description: 'Every UTC hour or day of the period, including those without calls.' }),
  })
  .openapi('AiUsageSummary')

const Event = z
  .object({
    id,
    requestId: id.openapi({ description: 'The `X-Service-Request-Id` of the call.' }),
    traceId: shown('4bf92f3577b34da6a3ce929d0e0e4736').nullable(),
    billingSubjectType: z.enum(['organization', 'application']),
    organizationId: id,
    applicationId: id.nullable(),
    actorId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20'),
    actorType: z.enum(['user', 'key', 'function']),
    apiKeyId: id.nullable(),
    authenticatedUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').nullable(),
    callerEndUserId: shown('customer-17').nullable(),
    modelRequested: shown('openai/gpt-5').nullable(),
    modelServed: shown('openai/gpt-5').nullable(),
    provider: shown('openai').nullable(),
    providerAttempts: z
      .array(
        z.object({
          provider: shown('openai'),
          error: shown('upstream_error').optional(),
          statusCode: count(503).optional(),
          tag: shown('retry').optional(),
        }),
      )
      .openapi({ description: 'All attempts, in order.' }),
    status: z
      .enum(statuses)
      .openapi({ description: '`pending` while a video is being made; `cancelled` if the client disconnected.' }),
    errorCode: shown('budget_exceeded').nullable(),
    errorType: shown('insufficient_quota').nullable(),
    inputTokens: figures.inputTokens,
    outputTokens: figures.outputTokens,
    cachedInputTokens: amount.openapi({
      description: 'Input tokens that were read from a cache.',
      example: 0,
    }),
    totalTokens: count(600),
    usageSource: z
      .enum(['provider', 'estimated', 'none'])
      .openapi({ description: 'Where the token counts come from.' }),
    providerCostMicros: micros.openapi({ description: 'What the provider charges the owner of the key.' }),
    billableCostMicros: micros.openapi({
      description: 'What the platform bills the organization; 0 if it used its own key.',
    }),
    streaming: z.boolean(),
    latencyMs: count(840),
    metadata: z
      .record(z.string(), z.string())
      .nullable()
      .openapi({ example: { team: 'search' } }),
    startedAt: instant,
    completedAt: instant.nullable(),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('AiUsageEvent')

const ofOrganization = { id: pathId('Organization') }
const filters = {
  from: instant.optional().openapi({ description: 'Start of the period, inclusive.' }),
  to: instant.optional().openapi({ description: 'End of the period, exclusive.' }),
  applicationId: id.optional().openapi({ description: 'Calls of this application.' }),
  model: text(255).optional().openapi({
    description: 'Calls served by this model; `unknown` for calls that no model served.',
    example: 'openai/gpt-5',
  }),
  provider: text(255).optional().openapi({
    description: 'Calls sent to this provider; `unknown` for calls that were sent to none.',
    example: 'openai',
  }),
  status: z.enum(statuses).optional().openapi({ description: 'Calls with this status.', example: 'error' }),
  requestId: id.optional().openapi({ description: 'The call with this `X-Service-Request-Id`.' }),
  authenticatedUserId: text(255)
    .optional()
    .openapi({ description: 'Calls of this user.', example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20' }),
  callerEndUserId: text(255)
    .optional()
    .openapi({ description: 'Calls for this end user of yours (`X-End-User-Id`).', example: 'customer-17' }),
}

/** The usage that a caller may see: all of an organization or application, or only their own with the role MEMBER (D90, D121). */
interface Reached {
  organizationId: string
  applicationId: string | undefined
  userId: string | undefined
}

async function reachUsage(call: {
  deps: Pick<AiDeps, 'db'>
  actor: Actor
  params: { id: string }
  query: { applicationId?: string | undefined }
}): Promise<Reached> {
  const { actor } = call
  const { organizationId, applicationId, role } = await reachReadable(call, call.query.applicationId)
  const userId = role === 'MEMBER' && actor.kind === 'user' ? actor.userId : undefined
  return { organizationId, applicationId: applicationId ?? undefined, userId }
}

/** The id of no event: usage that may not be seen looks like usage that does not exist. */
const NOTHING = '00000000-0000-0000-0000-000000000000'

/** Restricts the filters to what the caller may see. */
function within<F extends { authenticatedUserId?: string | undefined; applicationId?: string | undefined }>(
  { userId, ...reached }: Reached,
  { authenticatedUserId, ...filters }: F,
): Omit<F, 'authenticatedUserId'> & UsageFilters {
  const isHidden = userId !== undefined && authenticatedUserId !== undefined && authenticatedUserId !== userId
  return { ...filters, ...reached, userId: userId ?? authenticatedUserId, ...(isHidden && { requestId: NOTHING }) }
}

export const aiUsageEndpoints = [
  endpoint({
    operation: 'summarizeAiUsage',
    on: 'GET /organizations/{id}/ai-gateway/usage/summary',
    spec,
    tag,
    summary: 'Summarize AI usage',
    description: `Exact totals of the calls that started in the period, by default the last 30 days: overall, by model, provider and user, and by UTC hour or day. All filters must match. With \`status\`, \`requestId\` or \`callerEndUserId\` a summary is made of single calls, so the period must not reach back to calls that are no longer kept, and more than a million matching calls are refused with 400. ${seenBy}`,
    actor: 'any',
    scope,
    params: ofOrganization,
    query: z.strictObject({
      ...filters,
      interval: z.enum(['hour', 'day']).default('day').openapi({ description: 'Interval of the series.' }),
    }),
    reach: reachUsage,
    returns: [200, Summary],
    fails: [400],
    handle({ deps, target, query: { from, to, interval, ...filters } }) {
      return summarizeUsage(deps, within(target, filters), { from, to, interval })
    },
  }),
  endpoint({
    operation: 'listAiUsageRequests',
    on: 'GET /organizations/{id}/ai-gateway/usage/requests',
    spec,
    tag,
    summary: 'List AI requests',
    description: `Newest first. All filters must match. A page holds at most 1 MiB, which may be fewer items than \`limit\`. ${kept} ${seenBy}`,
    actor: 'any',
    scope,
    params: ofOrganization,
    query: z.strictObject({ ...cursorQuery(EVENTS_MAX), ...filters }),
    reach: reachUsage,
    returns: [200, cursorPage(Event)],
    fails: [400],
    handle: ({ deps, target, query: filters }) => eventsPage(deps, within(target, filters)),
  }),
  endpoint({
    operation: 'exportAiUsage',
    on: 'GET /organizations/{id}/ai-gateway/usage/export',
    spec,
    tag,
    summary: 'Export AI requests',
    description: `Every matching request as CSV, newest first, with the fields of the list in snake_case. Text that a spreadsheet would take for a formula is prefixed with an apostrophe. If the export fails midway, the connection is closed. ${kept} ${seenBy}`,
    actor: 'any',
    scope,
    params: ofOrganization,
    query: z.strictObject(filters),
    reach: reachUsage,
    returns: [200, csvFile],
    headersFor: () => ({ 'content-disposition': 'attachment; filename="ai-usage.csv"' }),
    handle: ({ deps, target, query: filters }) => exportEvents(deps, within(target, filters)),
  }),
]
