import { Forbidden } from '@platform/errors/api-error'
import { eq, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { organizations } from '../organizations/table.ts'
import { products, type ProductSlug } from './registry.ts'
import { entitlements } from './table.ts'

/** The error message if an organization has no access to a product. */
export const noAccess = (product: ProductSlug): string => `The organization has no access to the product ${product}`

/** SQL: true if an organization has no access to a product, by its entitlement or else the product's default (D91). */
export function isWithheldFrom(organizationId: SQLWrapper, product: ProductSlug): SQL<boolean> {
  const isGranted = products.find(({ slug }) => slug === product)?.defaultAccessPolicy === 'granted'
  const decided = sql`select from ${entitlements} where ${entitlements.organizationId} = ${organizationId} and ${entitlements.product} = ${product}`
  return isGranted
    ? sql<boolean>`exists (${decided} and ${entitlements.status} <> 'ACTIVE')`
    : sql<boolean>`not exists (${decided} and ${entitlements.status} = 'ACTIVE')`
}

/** Throws Forbidden if the organization has no access to the product (D91). */
export async function requireProduct(
  { db }: Pick<TenancyDeps, 'db'>,
  product: ProductSlug,
  organizationId: string,
): Promise<void> {
  const [row] = await db
    .select({ isWithheld: isWithheldFrom(organizations.id, product) })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
  if (row?.isWithheld) throw new Forbidden(noAccess(product))
}
