import { Forbidden } from '@platform/errors/api-error'
import { eq, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { applications } from '../applications/table.ts'
import { organizations } from '../organizations/table.ts'
import { products, type ProductSlug } from './registry.ts'
import { entitlements } from './table.ts'

/** What a caller is told whose organization has no access to a product. */
export const noAccess = (product: ProductSlug): string => `The organization has no access to the product ${product}`

/** SQL: true where an organization has no access to a product, by its entitlement or else the product's default (D91). */
function isWithheldFrom(organizationId: SQLWrapper, product: ProductSlug): SQL<boolean> {
  const isGranted = products.find(({ slug }) => slug === product)?.defaultAccessPolicy === 'granted'
  const decided = sql`select from ${entitlements} where ${entitlements.organizationId} = ${organizationId} and ${entitlements.product} = ${product}`
  return isGranted
    ? sql<boolean>`exists (${decided} and ${entitlements.status} <> 'ACTIVE')`
    : sql<boolean>`not exists (${decided} and ${entitlements.status} = 'ACTIVE')`
}

/** The same for the organization above an application. */
export const isWithheldBelow = (applicationId: SQLWrapper, product: ProductSlug): SQL<boolean> =>
  isWithheldFrom(
    sql`(select ${applications.organizationId} from ${applications} where ${applications.id} = ${applicationId})`,
    product,
  )

/** Throws Forbidden where the organization, or the one above the application, has no access to the product (D91). */
export async function requireProduct(
  { db }: Pick<Deps, 'db'>,
  product: ProductSlug,
  owner: { organizationId: string } | { applicationId: string },
): Promise<void> {
  const query =
    'organizationId' in owner
      ? db
          .select({ isWithheld: isWithheldFrom(organizations.id, product) })
          .from(organizations)
          .where(eq(organizations.id, owner.organizationId))
      : db
          .select({ isWithheld: isWithheldFrom(applications.organizationId, product) })
          .from(applications)
          .where(eq(applications.id, owner.applicationId))
  const [row] = await query
  if (row?.isWithheld) throw new Forbidden(noAccess(product))
}
