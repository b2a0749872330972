import { Forbidden, NotFound } from '@platform/errors/api-error'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, getTableColumns } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import { members, organizations, type Role } from './table.ts'

export type Organization = typeof organizations.$inferSelect

/** An id, and the user whose role in its organization is wanted; null for an API key, which has no role. */
export interface AskedFor {
  id: string
  userId: string | null
}

/** The look-ups of one tick, each answered with the caller's role in the organization. */
export const lookups = keysAsRows({ id: 'uuid', userId: 'text' })

/** The organization and the caller's role in it: one statement for all requests of a tick. */
const findWithRole = lazyPrepared((db) => {
  const query = db
    .select({ ...getTableColumns(organizations), role: members.role, n: lookups.n })
    .from(lookups.from)
    .innerJoin(organizations, eq(organizations.id, lookups.columns.id))
    .leftJoin(members, and(eq(members.organizationId, organizations.id), eq(members.userId, lookups.columns.userId)))
    .prepare('organizations_with_roles')
  return batchPerTick(async (keys: readonly AskedFor[]) =>
    lookups.inOrder(keys, await query.execute(lookups.parameters(keys))),
  )
})

/** The role that an operation needs: any member's, or one that may administer. */
export type Need = 'member' | 'admin'

/** Throws Forbidden if a member's role does not suffice (D17, wire.md roles). */
export function requireRole(role: Role, need: Need): void {
  if (need === 'admin' && role === 'MEMBER') throw new Forbidden('Your role in this organization does not allow this')
}

/**
 * The organization, if the actor reaches it. A user outside it gets the same 404 as for a missing one; an API key or Function
 * gets 403 for every existing one, its own included, since it reaches one application and nothing above it (D17).
 */
export async function reachOrganization(
  { deps, actor }: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  id: string,
  need: Need = 'member',
): Promise<Organization> {
  return (await reachMembership({ deps, actor }, id, need)).organization
}

/** The same, with the caller's role in it. */
export async function reachMembership(
  { deps, actor }: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  id: string,
  need: Need = 'member',
): Promise<{ organization: Organization; role: Role }> {
  const row = await findWithRole(deps.db)({ id, userId: actor.kind === 'user' ? actor.userId : null })
  if (!row) throw new NotFound('Organization')
  if (actor.kind !== 'user') throw new Forbidden()
  if (!row.role) throw new NotFound('Organization')
  actor.organizationId = row.id
  requireRole(row.role, need)
  return { organization: row, role: row.role }
}
