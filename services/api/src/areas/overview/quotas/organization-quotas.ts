import { one } from '@platform/runtime/database'
import { monthOf } from '@platform/runtime/partitions'
import { and, count, eq, inArray } from 'drizzle-orm'
import type { OverviewDeps } from '../deps.ts'
import { spendingOf } from '../../deploy/deployments/billing.ts'
import { dayAfter, deploymentsToday } from '../../deploy/deployments/deployments.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { imageTotals } from '../../edge/images/table.ts'
import { invitationsToday } from '../../tenancy/invitations/invitations.ts'
import type { Organization } from '../../tenancy/organizations/reach.ts'
import { quotasOf } from '../../tenancy/products/quotas.ts'
import { type Quota, quotaNames } from '../../tenancy/products/registry.ts'
import { storedBytesOf } from '../../storage/objects/stored-bytes.ts'

interface ShownQuota {
  name: Quota
  limit: number
  /** null for quotas that limit one thing at a time, such as an archive's size, or what one person has. */
  used: number | null
  /** When the usage is reset; null for quotas that are not per period. */
  windowEnd: Date | null
}

interface OrganizationQuotas {
  items: ShownQuota[]
  total: number
  billing: { capMicros: number | null; spentMicros: number; windowEnd: Date }
}

/** Deployments that a worker holds. */
async function buildsUnderWay({ db }: Pick<OverviewDeps, 'db'>, organizationId: string): Promise<number> {
  const underWay = inArray(deployments.status, ['STARTING', 'BUILDING', 'PROVISIONING'])
  const rows = await db
    .select({ builds: count() })
    .from(deployments)
    .where(and(eq(deployments.organizationId, organizationId), underWay))
  return one(rows).builds
}

/** Size of all deployments' images. */
async function imageBytes({ db }: Pick<OverviewDeps, 'db'>, organizationId: string): Promise<number> {
  const [row] = await db.select().from(imageTotals).where(eq(imageTotals.organizationId, organizationId))
  return row?.bytes ?? 0
}

/** An organization's quotas, its usage, and its charges (wire.md Extensions, D77). */
export async function listQuotas(
  deps: Pick<OverviewDeps, 'db' | 'now'>,
  { id, applicationCount }: Organization,
): Promise<OrganizationQuotas> {
  const [limits, spending, today, builds, images, stored, invited] = await Promise.all([
    quotasOf(deps, id),
    spendingOf(deps, id),
    deploymentsToday(deps, id),
    buildsUnderWay(deps, id),
    imageBytes(deps, id),
    storedBytesOf(deps, id),
    invitationsToday(deps, id),
  ])
  const time = deps.now()
  const month = monthOf(time)
  const nextMonth = new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1))
  const counted: Partial<Record<Quota, Omit<ShownQuota, 'name' | 'limit'>>> = {
    applications: { used: applicationCount, windowEnd: null },
    deployments_per_day: { used: today, windowEnd: dayAfter(time) },
    concurrent_builds: { used: builds, windowEnd: null },
    image_cache_bytes: { used: images, windowEnd: null },
    stored_bytes: { used: stored, windowEnd: null },
    function_hours_per_month: { used: Math.floor(spending.functionHours), windowEnd: nextMonth },
    invitations_per_day: { used: invited, windowEnd: dayAfter(time) },
    build_minutes_per_month: { used: Math.floor(spending.buildMinutes), windowEnd: nextMonth },
  }
  const items = quotaNames.map((name) => ({
    name,
    limit: limits[name],
    ...(counted[name] ?? { used: null, windowEnd: null }),
  }))
  const { capMicros, spentMicros } = spending
  return { items, total: items.length, billing: { capMicros, spentMicros, windowEnd: nextMonth } }
}
