import { z } from '@hono/zod-openapi'
import { AiError } from '@platform/errors/ai-error'
import { BadRequest, InvalidToken, NotFound } from '@platform/errors/api-error'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { Actor } from '../../../http/actor.ts'
import type { AiDeps } from '../deps.ts'
import { id, text } from '../../../http/fields.ts'
import { applications } from '../../tenancy/applications/table.ts'
import { aiBudgets, aiPolicies, aiProviderKeys } from '../governance/table.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { reachOrganization } from '../../tenancy/organizations/reach.ts'
import { members, organizations } from '../../tenancy/organizations/table.ts'
import { isWithheldFrom, noAccess } from '../../tenancy/products/product-access.ts'
import { entitlements } from '../../tenancy/products/table.ts'

const END_USER_BYTES_MAX = 255

/** The headers that place a call (D78). */
export const placementHeaders = z.object({
  'X-Organization-Id': id.optional().openapi({
    description: 'The organization that a user’s call belongs to. Required for members of several organizations.',
  }),
  'OpenAI-Organization': z.string().optional().openapi({
    description: 'The same as `X-Organization-Id`, which takes precedence. The `openai` package sends it.',
    example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
  }),
  'X-Application-Id': id.optional().openapi({
    description: 'An application of that organization whose budgets and policy apply to a user’s call.',
  }),
})

/** Headers of inference calls: also the end user behind the call. */
export const inferenceHeaders = z.object({
  ...placementHeaders.shape,
  'X-End-User-Id': text(END_USER_BYTES_MAX)
    .optional()
    .openapi({ description: 'Your own end user, recorded in usage events.', example: 'customer-17' }),
})

type Headers = z.output<typeof placementHeaders>

/** What a call belongs to, and what its organization may use. */
export interface Placement {
  organizationId: string
  /** null: a user's call that names no application. */
  applicationId: string | null
  /** True if the operator has decided that the organization may use the operator's provider keys (D111). */
  isEntitled: boolean
  /** True if the operator lets everyone use some of those keys. */
  hasAllowance: boolean
  /** True if the organization has provider keys of its own. */
  hasKeys: boolean
  /** True if a policy of the organization or application may forbid something. */
  hasPolicies: boolean
  /** The limits that enabled budgets set for the call. */
  limits: { any: boolean; cost: boolean; tokens: boolean }
}

// Bit flags: Postgres combines those of all matching budgets.
const [LIMITS_ANY, LIMITS_COST, LIMITS_TOKENS] = [1, 2, 4] as const

const lookups = keysAsRows({ organizationId: 'uuid', applicationId: 'uuid', userId: 'text' })
interface AskedFor extends Readonly<Record<string, string | null>> {
  organizationId: string | null
  applicationId: string | null
  userId: string | null
}

const named = alias(applications, 'named_application')

/** Finds what a call names and the caller's access to it: one statement for all calls of a tick. */
const findPlacement = lazyPrepared((db: Db) => {
  // At most two: members of several organizations have to name one.
  const mine = sql`(select ${members.organizationId} from ${members} where ${members.userId} = ${lookups.columns.userId} limit 2)`
  const only = sql`(select case when count(*) = 1 then (array_agg(organization_id))[1] end from ${mine} as mine)`
  const query = db
    .select({
      n: lookups.n,
      organizationId: organizations.id,
      role: members.role,
      applicationId: named.id,
      applicationOrganizationId: named.organizationId,
      isWithheld: isWithheldFrom(organizations.id, 'ai-gateway'),
      isEntitled: sql<boolean>`exists (select from ${entitlements} where ${entitlements.organizationId} = ${organizations.id} and ${entitlements.product} = 'ai-gateway' and ${entitlements.status} = 'ACTIVE')`,
      hasPolicies: sql<boolean>`exists (select from ${aiPolicies} where ${aiPolicies.organizationId} = ${organizations.id})`,
      limits: sql<number>`coalesce((select bit_or(${sql.raw(String(LIMITS_ANY))}
        | case when ${aiBudgets.maxCostMicros} is null and ${aiBudgets.maxRequestCostMicros} is null then 0 else ${sql.raw(String(LIMITS_COST))} end
        | case when ${aiBudgets.maxTokens} is null then 0 else ${sql.raw(String(LIMITS_TOKENS))} end)
        from ${aiBudgets} where ${aiBudgets.organizationId} = ${organizations.id} and ${aiBudgets.enabled}
          and (${aiBudgets.applicationId} is null or ${aiBudgets.applicationId} = ${named.id})
          and (${aiBudgets.userId} is null or ${aiBudgets.userId} = ${lookups.columns.userId})), 0)`,
      hasKeys: sql<boolean>`exists (select from ${aiProviderKeys} where ${aiProviderKeys.organizationId} = ${organizations.id})`,
    })
    .from(lookups.from)
    .leftJoin(named, eq(named.id, lookups.columns.applicationId))
    .leftJoin(
      organizations,
      sql`${organizations.id} = coalesce(${lookups.columns.organizationId}, case when ${lookups.columns.userId} is null then ${named.organizationId} else ${only} end)`,
    )
    .leftJoin(
      members,
      and(eq(members.organizationId, organizations.id), sql`${members.userId} = ${lookups.columns.userId}`),
    )
    .prepare('ai_placements')
  return batchPerTick(async (keys: readonly AskedFor[]) =>
    lookups.inOrder(keys, await query.execute(lookups.parameters(keys))),
  )
})

/** The `openai` package may send the name of an organization at OpenAI, which means nothing here. */
function openAiOrganization({ 'OpenAI-Organization': named }: Headers): string | undefined {
  if (named === undefined) return undefined
  const { data } = id.safeParse(named)
  if (data === undefined) throw new NotFound('Organization')
  return data
}

/**
 * Finds the organization and application of a call (D78). A key or Function belongs to its application; a user's call belongs to
 * what the headers name, or to the user's only organization.
 *
 * Throws NotFound and Forbidden by D17, BadRequest for a user of several organizations who names none, and Forbidden if the
 * organization has no access to the product (D91), as AiError.
 */
export async function placeCall(
  { deps, actor }: { deps: Pick<AiDeps, 'db' | 'ai'>; actor: Actor },
  headers: Headers,
): Promise<Placement> {
  const organizationId = headers['X-Organization-Id'] ?? openAiOrganization(headers) ?? null
  const applicationId = headers['X-Application-Id'] ?? null
  const userId = actor.kind === 'user' ? actor.userId : null
  const row = await findPlacement(deps.db)(
    actor.kind === 'user'
      ? { organizationId, applicationId, userId }
      : { organizationId: null, applicationId: actor.applicationId, userId },
  )
  if (actor.kind !== 'user') {
    if (!row?.organizationId) throw new InvalidToken('The application of this API key no longer exists')
    // An organization other than its own is denied, and a missing one is not found (D17).
    if (organizationId !== null && organizationId !== row.organizationId)
      await reachOrganization({ deps, actor }, organizationId)
    if (applicationId !== null && applicationId !== actor.applicationId)
      await reachApplication({ deps, actor }, applicationId)
  } else if (!row?.organizationId) {
    if (organizationId !== null) throw new NotFound('Organization')
    throw new BadRequest('Name the organization of this call in the header X-Organization-Id')
  } else {
    if (!row.role) throw new NotFound('Organization')
    if (applicationId !== null && row.applicationOrganizationId !== row.organizationId)
      throw new NotFound('Application')
  }
  actor.organizationId = row.organizationId
  if (row.isWithheld) throw new AiError(403, 'permission_error', 'product_required', noAccess('ai-gateway'))
  const { isEntitled, hasKeys, hasPolicies, limits } = row
  return {
    organizationId: row.organizationId,
    applicationId: row.applicationId,
    isEntitled,
    hasAllowance: deps.ai.catalog.freeCostNanos !== null,
    hasKeys,
    hasPolicies,
    limits: {
      any: (limits & LIMITS_ANY) !== 0,
      cost: (limits & LIMITS_COST) !== 0,
      tokens: (limits & LIMITS_TOKENS) !== 0,
    },
  }
}
