import { and, eq, max } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { organizations } from '../organizations/table.ts'
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
