import { NotFound } from '@platform/errors/api-error'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, getTableColumns, isNull, or } from 'drizzle-orm'
import type { UserActor } from '../../../../http/actor.ts'
import type { AiDeps } from '../../deps.ts'
import type { Organization } from '../../../tenancy/organizations/reach.ts'
import { aiPolicies } from '../table.ts'

/** A policy as stored. */
type PolicyRow = typeof aiPolicies.$inferSelect

interface ShownPolicy extends PolicyRow {
  /** Ids of `allowedModels` that the catalog does not have: misspelt ones, and those that the operator took out. */
  unknownModels: string[]
}

/** What the calls of an organization, or of one application, may do. */
export type PolicyRules = Pick<
  PolicyRow,
  'allowedModels' | 'allowedProviders' | 'requireZdr' | 'allowFallbacks' | 'maxOutputTokens'
>

const isOf = (organizationId: string, applicationId: string | null) =>
  and(
    eq(aiPolicies.organizationId, organizationId),
    applicationId === null ? isNull(aiPolicies.applicationId) : eq(aiPolicies.applicationId, applicationId),
  )

const shownPolicy = ({ ai: { catalog } }: Pick<AiDeps, 'ai'>, row: PolicyRow): ShownPolicy => ({
  ...row,
  unknownModels: [...new Set(row.allowedModels)].filter((model) => !catalog.models.has(model)),
})

/** Returns the organization's own policy or, with an application, the application's; undefined if there is none. */
export async function findPolicy(
  deps: Pick<AiDeps, 'db' | 'ai'>,
  organizationId: string,
  applicationId: string | null,
): Promise<ShownPolicy | undefined> {
  const [row] = await deps.db.select().from(aiPolicies).where(isOf(organizationId, applicationId))
  return row && shownPolicy(deps, row)
}

/**
 * Sets the policy of an organization, or of one of its applications; an existing one is replaced and keeps its id. Logs the change.
 * Safe to repeat.
 */
export async function setPolicy(
  deps: Pick<AiDeps, 'db' | 'now' | 'logger' | 'ai'>,
  by: UserActor,
  { id: organizationId }: Pick<Organization, 'id'>,
  applicationId: string | null,
  policy: PolicyRules,
): Promise<ShownPolicy> {
  const { db, now, logger } = deps
  const time = now()
  const replaced = { ...policy, updatedAt: time }
  const rows = await db
    .insert(aiPolicies)
    .values({ ...replaced, id: newId(), organizationId, applicationId, createdAt: time })
    .onConflictDoUpdate({ target: [aiPolicies.organizationId, aiPolicies.applicationId], set: replaced })
    .returning()
  logger.info({ organizationId, applicationId, userId: by.userId }, 'AI policy set')
  return shownPolicy(deps, one(rows))
}

/** Removes a policy, and with it all its limits. Logs the change. Throws NotFound. */
export async function deletePolicy(
  { db, logger }: Pick<AiDeps, 'db' | 'logger'>,
  by: UserActor,
  { id: organizationId }: Pick<Organization, 'id'>,
  applicationId: string | null,
): Promise<void> {
  const gone = await db.delete(aiPolicies).where(isOf(organizationId, applicationId)).returning({ id: aiPolicies.id })
  if (gone.length === 0) throw new NotFound('Policy')
  logger.info({ organizationId, applicationId, userId: by.userId }, 'AI policy deleted')
}

const lookups = keysAsRows({ organizationId: 'uuid', applicationId: 'uuid' })

/** The key of a policy lookup; only the organization's own policy applies to a call without application. */
interface AskedFor extends Readonly<Record<string, string | null>> {
  organizationId: string
  applicationId: string | null
}

/** Finds the policies of calls: one statement for all calls of a tick. */
const findByTurn = lazyPrepared((db) => {
  const query = db
    .select({ ...getTableColumns(aiPolicies), n: lookups.n })
    .from(lookups.from)
    .innerJoin(
      aiPolicies,
      and(
        eq(aiPolicies.organizationId, lookups.columns.organizationId),
        or(isNull(aiPolicies.applicationId), eq(aiPolicies.applicationId, lookups.columns.applicationId)),
      ),
    )
    .prepare('ai_policies')
  return batchPerTick(async (keys: readonly AskedFor[]) => {
    const rows = await query.execute(lookups.parameters(keys))
    const byNumber = Map.groupBy(rows, ({ n }) => n)
    return keys.map((_, index) => byNumber.get(index + 1))
  })
})

/** Returns the policies that apply to a call, all of which have to allow it: its organization's and its application's. */
export async function policiesOf(
  { db }: Pick<AiDeps, 'db'>,
  { organizationId, applicationId }: { organizationId: string; applicationId: string | null },
): Promise<readonly PolicyRules[]> {
  return (await findByTurn(db)({ organizationId, applicationId })) ?? []
}
