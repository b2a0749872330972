import { and, eq, gt, isNotNull, isNull } from 'drizzle-orm'
import type { Role } from '../organizations/table.ts'
import { invitations } from '../organizations/invitations-table.ts'

/** Invitations that can still be accepted, as far as their own row says. */
export const isLive = (time: Date) =>
  and(isNull(invitations.endedAt), gt(invitations.expiresAt, time), isNotNull(invitations.invitedByUserId))

export const isOf = (organizationId: string) => eq(invitations.organizationId, organizationId)

/** Whether a member of this role may invite to the other: only an OWNER makes an OWNER (D112). */
export const mayInvite = (inviter: Role, role: Role): boolean =>
  inviter === 'OWNER' || (inviter === 'ADMIN' && role !== 'OWNER')
