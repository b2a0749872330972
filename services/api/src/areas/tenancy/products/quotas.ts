import { Forbidden } from '@platform/errors/api-error'
import { OWNED_ORGANIZATIONS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import { and, eq, max, sql } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { members, organizations } from '../organizations/table.ts'
import { type Quota, quotas } from './registry.ts'
import { quotaOverrides, subscriptions } from './table.ts'

/**
 * The quotas of an organization: the operator's overrides, else its plan's. The plan is that of its active subscription to the
 * network, else free (D77).
 */
export async function quotasOf(
  { db }: Pick<TenancyDeps, 'db'>,
  organizationId: string,
): Promise<Record<Quota, number>> {
  const rows = await db
    .select({ plan: subscriptions.plan, quota: quotaOverrides.quota, limit: quotaOverrides.limit })
    .from(organizations)
    .leftJoin(
      subscriptions,
      and(
        eq(subscriptions.organizationId, organizations.id),
        eq(subscriptions.product, 'network'),
        eq(subscriptions.status, 'ACTIVE'),
      ),
    )
    .leftJoin(quotaOverrides, eq(quotaOverrides.organizationId, organizations.id))
    .where(eq(organizations.id, organizationId))
  const overrides = rows.flatMap(({ quota, limit }) => (quota === null || limit === null ? [] : [[quota, limit]]))
  return { ...quotas[rows[0]?.plan ?? 'free'], ...(Object.fromEntries(overrides) as Partial<Record<Quota, number>>) }
}

/** One quota of an organization. */
export const quotaOf = async (deps: Pick<TenancyDeps, 'db'>, organizationId: string, quota: Quota): Promise<number> =>
  (await quotasOf(deps, organizationId))[quota]

const OWNER_QUOTA = 'organizations_per_owner'

/**
 * How many organizations a user owns, and may own: the highest value of the quota in those that they own, the free plan's if there
 * are none (D113). Until the transaction ends, others for the same user wait; a caller that also locks an organization does so after.
 */
export async function countOwned(tx: Db, userId: string): Promise<{ used: number; limit: number }> {
  await tx.execute(sql`select pg_advisory_xact_lock(${OWNED_ORGANIZATIONS_LOCK_CLASS}, hashtext(${userId}))`)
  const rows = await tx
    .select({ plan: subscriptions.plan, limit: quotaOverrides.limit })
    .from(members)
    .leftJoin(
      subscriptions,
      and(
        eq(subscriptions.organizationId, members.organizationId),
        eq(subscriptions.product, 'network'),
        eq(subscriptions.status, 'ACTIVE'),
      ),
    )
    .leftJoin(
      quotaOverrides,
      and(eq(quotaOverrides.organizationId, members.organizationId), eq(quotaOverrides.quota, OWNER_QUOTA)),
    )
    .where(and(eq(members.userId, userId), eq(members.role, 'OWNER')))
  const limits = rows.map(({ plan, limit }) => limit ?? quotas[plan ?? 'free'][OWNER_QUOTA])
  return { used: rows.length, limit: limits.length === 0 ? quotas.free[OWNER_QUOTA] : Math.max(...limits) }
}

/** Throws Forbidden if a user owns as many organizations as they may (D113). Locks as countOwned does. */
export async function requireOwnerQuota(tx: Db, userId: string): Promise<void> {
  const { used, limit } = await countOwned(tx, userId)
  if (used >= limit)
    throw new Forbidden(`Plan quota reached: ${OWNER_QUOTA} (${used} of ${limit} used). Contact support to raise it.`)
}

/** The highest value of a quota in any organization. */
export async function quotaMax({ db }: Pick<TenancyDeps, 'db'>, quota: Quota): Promise<number> {
  const [row] = await db
    .select({ limit: max(quotaOverrides.limit) })
    .from(quotaOverrides)
    .where(eq(quotaOverrides.quota, quota))
  return Math.max(...Object.values(quotas).map((plan) => plan[quota]), row?.limit ?? 0)
}

/** Sets a quota of one organization; null returns to the plan's. For operators only; safe to repeat. */
export async function setQuota(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  quota: Quota,
  limit: number | null,
): Promise<void> {
  if (limit === null) {
    await db
      .delete(quotaOverrides)
      .where(and(eq(quotaOverrides.organizationId, organizationId), eq(quotaOverrides.quota, quota)))
    return
  }
  const set = { limit, updatedAt: now() }
  await db
    .insert(quotaOverrides)
    .values({ organizationId, quota, ...set })
    .onConflictDoUpdate({ target: [quotaOverrides.organizationId, quotaOverrides.quota], set })
}
