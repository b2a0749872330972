import { NotFound } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { eq } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import type { Organization } from '../organizations/reach.ts'
import { type PlanSlug, type Product, products, type ProductSlug } from './registry.ts'
import { billingCaps, entitlements, subscriptions } from './table.ts'

type Entitlement = typeof entitlements.$inferSelect
type Subscription = typeof subscriptions.$inferSelect

/** An organization's access to a product (wire.md). */
export interface ProductAccess {
  product: Product
  hasAccess: boolean
  resolutionSource: 'explicit' | 'default'
  explicitEntitlement: Entitlement | null
  subscription: Subscription | null
}

function resolve(
  product: Product,
  explicitEntitlement: Entitlement | null,
  subscription: Subscription | null,
): ProductAccess {
  const hasAccess = explicitEntitlement
    ? explicitEntitlement.status === 'ACTIVE'
    : product.defaultAccessPolicy === 'granted'
  return {
    product,
    hasAccess,
    resolutionSource: explicitEntitlement ? 'explicit' : 'default',
    explicitEntitlement,
    subscription,
  }
}

/** Every product with the organization's access to it (A §4). */
export async function listProductAccess(
  { db }: Pick<TenancyDeps, 'db'>,
  organization: Organization,
): Promise<ProductAccess[]> {
  const [decided, subscribed] = await Promise.all([
    db.select().from(entitlements).where(eq(entitlements.organizationId, organization.id)),
    db.select().from(subscriptions).where(eq(subscriptions.organizationId, organization.id)),
  ])
  return products.map((product) =>
    resolve(
      product,
      decided.find((row) => row.product === product.slug) ?? null,
      subscribed.find((row) => row.product === product.slug) ?? null,
    ),
  )
}

/** One product with the organization's access. Throws NotFound if there is no such product (D50). */
export async function getProductAccess(
  deps: Pick<TenancyDeps, 'db'>,
  organization: Organization,
  slug: string,
): Promise<ProductAccess> {
  const access = (await listProductAccess(deps, organization)).find(({ product }) => product.slug === slug)
  if (!access) throw new NotFound('Product')
  return access
}

/** Overrides a product's default access for an organization. For operators only; safe to repeat. */
export async function setEntitlement(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  product: ProductSlug,
  status: Entitlement['status'],
): Promise<void> {
  const time = now()
  const decided = { status, revokedAt: status === 'REVOKED' ? time : null, updatedAt: time }
  await db
    .insert(entitlements)
    .values({ id: newId(), organizationId, product, createdAt: time, ...decided })
    .onConflictDoUpdate({ target: [entitlements.organizationId, entitlements.product], set: decided })
}

/** Puts an organization on a plan of a product. For operators only; safe to repeat. */
export async function activatePlan(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  product: ProductSlug,
  plan: PlanSlug,
): Promise<void> {
  const time = now()
  const active = { plan, status: 'ACTIVE' as const, updatedAt: time }
  await db
    .insert(subscriptions)
    .values({ id: newId(), organizationId, product, createdAt: time, ...active })
    .onConflictDoUpdate({ target: [subscriptions.organizationId, subscriptions.product], set: active })
}

/** Caps an organization's monthly bill; null removes the cap. For operators only; safe to repeat. */
export async function setBillingCap(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  capMicros: number | null,
): Promise<void> {
  if (capMicros === null) {
    await db.delete(billingCaps).where(eq(billingCaps.organizationId, organizationId))
    return
  }
  const set = { capMicros, updatedAt: now() }
  await db
    .insert(billingCaps)
    .values({ organizationId, ...set })
    .onConflictDoUpdate({ target: billingCaps.organizationId, set })
}
