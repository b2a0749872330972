import { Forbidden } from '@platform/errors/api-error'
import { eq, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { isWithheldFrom, noAccess } from '../products/product-access.ts'
import type { ProductSlug } from '../products/registry.ts'
import { applications } from './table.ts'

/** SQL: true if the organization of an application has no access to a product (D91). */
export const isWithheldBelow = (applicationId: SQLWrapper, product: ProductSlug): SQL<boolean> =>
  isWithheldFrom(
    sql`(select ${applications.organizationId} from ${applications} where ${applications.id} = ${applicationId})`,
    product,
  )

/** Throws Forbidden if the organization of the application has no access to the product (D91). */
export async function requireApplicationProduct(
  { db }: Pick<TenancyDeps, 'db'>,
  product: ProductSlug,
  applicationId: string,
): Promise<void> {
  const [row] = await db
    .select({ isWithheld: isWithheldFrom(applications.organizationId, product) })
    .from(applications)
    .where(eq(applications.id, applicationId))
  if (row?.isWithheld) throw new Forbidden(noAccess(product))
}
