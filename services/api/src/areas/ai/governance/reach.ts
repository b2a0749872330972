import { NotFound } from '@platform/errors/api-error'
import { and, eq } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { AiDeps } from '../deps.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { applications } from '../../tenancy/applications/table.ts'
import { reachMembership, reachOrganization } from '../../tenancy/organizations/reach.ts'
import type { Role } from '../../tenancy/organizations/table.ts'

/** Throws NotFound for an application that does not belong to the organization (D17). null: no application. */
export async function requireApplication(
  { db }: Pick<AiDeps, 'db'>,
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

/** What a caller reads: an organization, or one of its applications. */
interface Readable {
  organizationId: string
  /** The application that was named or, for an API key, its own; null: the whole organization. */
  applicationId: string | null
  /** null for an API key, which has none. */
  role: Role | null
}

/**
 * Requires that a caller may read usage, budgets or a policy (D121). A member may read those of the organization and of each
 * application. An API key may read those of its own application, which it need not name. Others are refused as in D17.
 *
 * applicationId: as named by the request.
 */
export async function reachReadable(
  call: { deps: Pick<AiDeps, 'db'>; actor: Actor; params: { id: string } },
  applicationId: string | undefined,
): Promise<Readable> {
  const { deps, actor, params } = call
  if (actor.kind === 'user') {
    const { organization, role } = await reachMembership(call, params.id)
    await requireApplication(deps, organization.id, applicationId ?? null)
    return { organizationId: organization.id, applicationId: applicationId ?? null, role }
  }
  const own = await reachApplication(call, actor.applicationId)
  // Both throw: no other organization or application is in reach.
  if (params.id !== own.organizationId) await reachOrganization(call, params.id)
  if (applicationId !== undefined && applicationId !== own.id) await reachApplication(call, applicationId)
  return { organizationId: own.organizationId, applicationId: own.id, role: null }
}
