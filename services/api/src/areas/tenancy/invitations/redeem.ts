import { entriesMax } from '@platform/runtime/entries-max'
import { recordAudit } from '@platform/service/audit'
import { and, eq } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { RedeemJoined } from '../../../core.ts'
import type { TenancyDeps } from '../deps.ts'
import { isLastOwner, lockMembers, type MemberRow, removedAtOf, setMember } from '../organizations/members.ts'
import type { Role } from '../organizations/table.ts'
import { countOwned } from '../products/quotas.ts'
import { isLive, mayInvite } from './live.ts'
import { invitations } from '../organizations/invitations-table.ts'

const PAIRS_MAX = 50_000

/** Why an invitation that still counts is refused to who accepted it, as the audit names it. */
type Refusal = 'inviter' | 'removed' | 'owner' | 'last_owner' | 'quota'

interface Accepted {
  userId: string
  /** The members of the organization. */
  rows: readonly MemberRow[]
  invitation: { role: Role; invitedByUserId: string | null; createdAt: Date }
  /** When the user last stopped being a member. */
  removedAt: Date | undefined
  /** Whether they own as many organizations as they may. */
  ownsEnough: boolean
}

/**
 * Why an invitation gives its role to nobody: its inviter may no longer make it; the user stopped being a member after it was made;
 * an OWNER would lose the role to an ADMIN's invitation, or be the last to have it; or the user would own too many organizations (D113).
 */
function refusalOf({ userId, rows, invitation, removedAt, ownsEnough }: Accepted): Refusal | undefined {
  const { role, invitedByUserId, createdAt } = invitation
  const inviter = rows.find((row) => row.userId === invitedByUserId)
  if (!inviter || !mayInvite(inviter.role, role)) return 'inviter'
  if (removedAt !== undefined && createdAt <= removedAt) return 'removed'
  const isOwner = rows.some((row) => row.userId === userId && row.role === 'OWNER')
  if (isOwner && inviter.role !== 'OWNER') return 'owner'
  if (role !== 'OWNER' && isLastOwner(rows, userId)) return 'last_owner'
  return role === 'OWNER' && !isOwner && ownsEnough ? 'quota' : undefined
}

/**
 * Makes a user a member by an invitation that they accepted, or gives them its role, and ends it (D112). It ends, too, where it is
 * refused, so that it does not work later or in another process.
 */
async function redeem({ db, now }: Pick<TenancyDeps, 'db' | 'now'>, userId: string, id: string): Promise<void> {
  const [place] = await db
    .select({ organizationId: invitations.organizationId, role: invitations.role })
    .from(invitations)
    .where(and(eq(invitations.id, id), isLive(now())))
  if (!place) return
  const { organizationId, role } = place
  await db.transaction(async (tx) => {
    // Its lock comes before the organization's.
    const owned = role === 'OWNER' ? await countOwned(tx, userId) : undefined
    const rows = await lockMembers(tx, organizationId)
    const time = now()
    // Locked, so that a revocation is either seen here or comes too late.
    const [invitation] = await tx
      .select({
        role: invitations.role,
        invitedByUserId: invitations.invitedByUserId,
        createdAt: invitations.createdAt,
      })
      .from(invitations)
      .where(and(eq(invitations.id, id), isLive(time)))
      .for('update')
    if (!invitation) return
    await tx.update(invitations).set({ endedAt: time }).where(eq(invitations.id, id))
    const record = (action: string, details: object) =>
      recordAudit(tx, time, {
        actor: `user:${userId}`,
        action,
        subject: `organization:${organizationId}`,
        details: { invitationId: id, invitedByUserId: invitation.invitedByUserId, role, ...details },
      })
    const removedAt = await removedAtOf({ db: tx }, organizationId, userId)
    const ownsEnough = owned !== undefined && owned.used >= owned.limit
    const reason = refusalOf({ userId, rows, invitation, removedAt, ownsEnough })
    if (reason) return record('invitation.refused', { reason })
    const member = rows.find((row) => row.userId === userId)
    await setMember({ db: tx, now }, organizationId, userId, role)
    if (!member) await record('member.joined', {})
    else if (member.role === role) await record('invitation.accepted', {})
    else await record('member.role_changed', { from: member.role })
  })
}

/**
 * Redeems invitations, each once for a user: a token that is sent again costs no statement. Concurrent calls share one attempt. One
 * that failed is forgotten, so that the next call tries again.
 */
export function createRedeemer(deps: Pick<TenancyDeps, 'db' | 'now'>): RedeemJoined {
  const handled = new LRUCache<string, Promise<void>>({ ...entriesMax(PAIRS_MAX) })
  function redeemOnce(userId: string, id: string): Promise<void> {
    const key = `${id.toLowerCase()} ${userId}`
    const known = handled.get(key)
    if (known) return known
    const redemption = redeem(deps, userId, id).catch((error: unknown) => {
      handled.delete(key)
      throw error
    })
    handled.set(key, redemption)
    return redemption
  }
  return async (userId, ids) => {
    for (const id of ids) await redeemOnce(userId, id)
  }
}
