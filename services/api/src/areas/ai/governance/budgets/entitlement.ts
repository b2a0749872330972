import { and, eq } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import { entitlements } from '../../../tenancy/products/table.ts'

/** True if the operator has decided that an organization may use the operator's provider keys (D111). */
export async function isEntitled({ db }: Pick<AiDeps, 'db'>, organizationId: string): Promise<boolean> {
  const rows = await db
    .select({ id: entitlements.id })
    .from(entitlements)
    .where(
      and(
        eq(entitlements.organizationId, organizationId),
        eq(entitlements.product, 'ai-gateway'),
        eq(entitlements.status, 'ACTIVE'),
      ),
    )
  return rows.length > 0
}
