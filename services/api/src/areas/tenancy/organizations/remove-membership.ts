import { Conflict, Forbidden, NotFound } from '@platform/errors/api-error'
import { recordAudit } from '@platform/service/audit'
import { and, eq } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { UserActor } from '../../../http/actor.ts'
import { requireFreshSignIn } from '../../../http/fresh-sign-in.ts'
import type { TenancyDeps } from '../deps.ts'
import { endMemberships, isLastOwner, withMembers } from './members.ts'
import { requireRole } from './reach.ts'
import { members, type Role } from './table.ts'

interface Membership {
  id: string
  organizationId: string
  userId: string
}

/** Throws Forbidden unless a member of this role may remove one of the other: an ADMIN removes no OWNER (D112). */
function requireMayRemove(own: Role, other: Role): void {
  requireRole(own, 'admin')
  if (other === 'OWNER' && own !== 'OWNER') throw new Forbidden('Only an OWNER can remove an OWNER')
}

/** The membership that a user may end: their own, or another's by their role. Outside the organization it is a 404 (D17). */
export async function reachRemovable(
  { deps, actor }: { deps: Pick<TenancyDeps, 'db'>; actor: UserActor },
  id: string,
): Promise<Membership> {
  const callers = alias(members, 'callers')
  const [row] = await deps.db
    .select({
      id: members.id,
      organizationId: members.organizationId,
      userId: members.userId,
      role: members.role,
      ownRole: callers.role,
    })
    .from(members)
    .innerJoin(callers, and(eq(callers.organizationId, members.organizationId), eq(callers.userId, actor.userId)))
    .where(eq(members.id, id))
  if (!row) throw new NotFound('Membership')
  actor.organizationId = row.organizationId
  if (row.userId !== actor.userId) requireMayRemove(row.ownRole, row.role)
  return row
}

/**
 * Ends a membership: its user leaves, or is removed by another. Throws Conflict for the last OWNER, and SignInTooOld if somebody
 * else is removed long after the last sign-in.
 */
export async function removeMembership(
  deps: Pick<TenancyDeps, 'db' | 'now'>,
  by: UserActor,
  { id, organizationId, userId }: Membership,
): Promise<void> {
  const isOwn = userId === by.userId
  const time = deps.now()
  if (!isOwn) requireFreshSignIn(by, time, 'removing a member')
  await withMembers(deps, organizationId, async (tx, rows) => {
    const own = rows.find((row) => row.userId === by.userId)
    const removed = rows.find((row) => row.id === id)
    if (!own || !removed) throw new NotFound('Membership')
    if (!isOwn) requireMayRemove(own.role, removed.role)
    if (isLastOwner(rows, userId)) throw new Conflict('The only OWNER cannot leave: invite another OWNER first')
    await endMemberships({ ...deps, db: tx }, organizationId, eq(members.id, id))
    await recordAudit(tx, time, {
      actor: `user:${by.userId}`,
      action: isOwn ? 'member.left' : 'member.removed',
      subject: `organization:${organizationId}`,
      details: { membershipId: id, userId, role: removed.role },
    })
  })
}
