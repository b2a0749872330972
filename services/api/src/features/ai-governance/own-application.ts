import { NotFound } from '@platform/errors/api-error'
import { and, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { applications } from '../applications/table.ts'

/** Throws NotFound for an application that does not belong to the organization (D17). null: no application. */
export async function requireApplication(
  { db }: Pick<Deps, 'db'>,
  organizationId: string,
  applicationId: string | null,
): Promise<void> {
  if (applicationId === null) return
  const rows = await db
    .select({ id: applications.id })
    .from(applications)
    .where(and(eq(applications.id, applicationId), eq(applications.organizationId, organizationId)))
  if (rows.length === 0) throw new NotFound('Application')
}
