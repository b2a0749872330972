import { and, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { organizations } from '../organizations/table.ts'
import { type Quota, quotas } from './registry.ts'
import { quotaOverrides, subscriptions } from './table.ts'

/**
 * What an organization may use: what its operator set for it, else what its plan allows. The plan is that of its active
 * subscription to the network, else free (D77).
 */
export async function quotaOf({ db }: Pick<Deps, 'db'>, organizationId: string, quota: Quota): Promise<number> {
  const [found] = await db
    .select({ plan: subscriptions.plan, override: quotaOverrides.limit })
    .from(organizations)
    .leftJoin(
      subscriptions,
      and(
        eq(subscriptions.organizationId, organizations.id),
        eq(subscriptions.product, 'network'),
        eq(subscriptions.status, 'ACTIVE'),
      ),
    )
    .leftJoin(quotaOverrides, and(eq(quotaOverrides.organizationId, organizations.id), eq(quotaOverrides.quota, quota)))
    .where(eq(organizations.id, organizationId))
  return found?.override ?? quotas[found?.plan ?? 'free'][quota]
}

/** Sets a quota of one organization, or with null gives it back to the plan. The operator's to call; safe to repeat. */
export async function setQuota(
  { db, now }: Pick<Deps, 'db' | 'now'>,
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
