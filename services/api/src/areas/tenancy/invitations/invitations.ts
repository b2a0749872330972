import { hash, randomBytes } from 'node:crypto'
import { Conflict, Forbidden, NotFound } from '@platform/errors/api-error'
import { INVITED_ADDRESS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { discardBefore } from '@platform/runtime/discard-rows'
import { newId } from '@platform/runtime/new-id'
import { dayOf } from '@platform/runtime/partitions'
import { recordAudit } from '@platform/service/audit'
import { and, desc, eq, gt, gte, isNull, sql } from 'drizzle-orm'
import type { UserActor } from '../../../http/actor.ts'
import { requireFreshSignIn } from '../../../http/fresh-sign-in.ts'
import type { TenancyDeps } from '../deps.ts'
import { withMembers } from '../organizations/members.ts'
import { type Organization, requireRole } from '../organizations/reach.ts'
import { removedMembers, type Role } from '../organizations/table.ts'
import { quotaOf } from '../products/quotas.ts'
import { getInviterName } from './inviter.ts'
import { invitationLetter } from './letter.ts'
import { isLive, isOf, mayInvite } from './live.ts'
import { invitations } from '../organizations/invitations-table.ts'

const DAY_MS = 86_400_000
const LIFETIME_MS = 7 * DAY_MS
const LIVE_MAX = 50
/** Letters that an address gets within a day, whichever organizations invite it. */
const LETTERS_MAX = 5

/** An invitation as the API shows it. */
interface Invitation {
  id: string
  organizationId: string
  email: string
  role: Role
  invitedByUserId: string
  createdAt: Date
  expiresAt: Date
}

interface NewInvitation extends Invitation {
  /** The link; shown here and nowhere else. */
  url: string
  /** Whether a letter with the link is on its way. */
  isMailed: boolean
}

const visible = {
  id: invitations.id,
  organizationId: invitations.organizationId,
  email: invitations.email,
  role: invitations.role,
  invitedByUserId: invitations.invitedByUserId,
  createdAt: invitations.createdAt,
  expiresAt: invitations.expiresAt,
}

export const hashToken = (token: string): Buffer => hash('sha256', token, 'buffer')

/** The invitations of an organization that can be accepted, newest first (D112). */
export async function listInvitations(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organization: Organization,
): Promise<Invitation[]> {
  const rows = await db
    .select(visible)
    .from(invitations)
    .where(and(isOf(organization.id), isLive(now())))
    .orderBy(desc(invitations.id))
  // Live ones have an inviter.
  return rows.map((row) => ({ ...row, invitedByUserId: row.invitedByUserId as string }))
}

/** The number of invitations that an organization has made in this UTC day; replaced and revoked ones count (D112). */
export const invitationsToday = (
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
): Promise<number> => db.$count(invitations, and(isOf(organizationId), gte(invitations.createdAt, dayOf(now()))))

/** Whether an address may get one more letter. Of concurrent invitations, each counts the letters of those before it. */
async function mayMail(tx: TenancyDeps['db'], email: string, time: Date): Promise<boolean> {
  await tx.execute(sql`select pg_advisory_xact_lock(${INVITED_ADDRESS_LOCK_CLASS}, hashtext(${email}))`)
  const since = new Date(time.getTime() - DAY_MS)
  const isLetter = and(eq(invitations.email, email), gt(invitations.createdAt, since), eq(invitations.isMailed, true))
  return (await tx.$count(invitations, isLetter)) < LETTERS_MAX
}

/** Throws Forbidden if somebody of this role may not invite to the other. */
function requireMayInvite(inviter: Role, role: Role): void {
  requireRole(inviter, 'admin')
  if (!mayInvite(inviter, role)) throw new Forbidden('Only an OWNER can invite an OWNER')
}

/**
 * Invites an address to an organization. It adds nobody: the owner of the address joins by signing in (D112). An earlier invitation
 * of the address ends. The letter goes out after the answer.
 *
 * email: as readMailAddress writes it. Throws Forbidden if the inviter's role or the day's quota does not allow it, SignInTooOld,
 * and Conflict if 50 are waiting.
 */
export async function createInvitation(
  deps: Pick<TenancyDeps, 'db' | 'now' | 'mailer' | 'afterAnswer' | 'publicUrl'>,
  by: UserActor,
  { organization, role: ownRole }: { organization: Organization; role: Role },
  { email, role }: { email: string; role: Role },
): Promise<NewInvitation> {
  const { mailer, publicUrl } = deps
  const time = deps.now()
  requireMayInvite(ownRole, role)
  if (role !== 'MEMBER') requireFreshSignIn(by, time, `inviting an ${role}`)
  const token = randomBytes(32).toString('base64url')
  const invitation: Invitation = {
    id: newId(),
    organizationId: organization.id,
    email,
    role,
    invitedByUserId: by.userId,
    createdAt: time,
    expiresAt: new Date(time.getTime() + LIFETIME_MS),
  }

  const { isMailed, inviter } = await withMembers(deps, organization.id, async (tx, rows) => {
    const within = { ...deps, db: tx }
    const member = rows.find(({ userId }) => userId === by.userId)
    if (!member) throw new NotFound('Organization')
    requireMayInvite(member.role, role)
    const [earlier] = await tx
      .update(invitations)
      .set({ endedAt: time })
      .where(and(isOf(organization.id), eq(invitations.email, email), isNull(invitations.endedAt)))
      .returning({ id: invitations.id })
    if ((await tx.$count(invitations, and(isOf(organization.id), isLive(time)))) >= LIVE_MAX)
      throw new Conflict(`${LIVE_MAX} invitations are waiting already: revoke one first`)
    const limit = await quotaOf(within, organization.id, 'invitations_per_day')
    const used = await invitationsToday(within, organization.id)
    if (used >= limit)
      throw new Forbidden(
        `Plan quota reached: invitations_per_day (${used} of ${limit} used). Contact support to raise it.`,
      )
    const isMailed = mailer !== undefined && (await mayMail(tx, email, time))
    await tx.insert(invitations).values({ ...invitation, tokenHash: hashToken(token), isMailed })
    const record = (action: string, details: Record<string, unknown>) =>
      recordAudit(tx, time, { actor: `user:${by.userId}`, action, subject: `organization:${organization.id}`, details })
    if (earlier) await record('invitation.replaced', { invitationId: earlier.id, by: invitation.id })
    await record('invitation.created', { invitationId: invitation.id, role })
    return { isMailed, inviter: isMailed ? await getInviterName(within, by.userId) : undefined }
  })

  const url = `${publicUrl}/.well-known/invitation/${token}`
  if (mailer && isMailed) {
    const letter = invitationLetter({ ...invitation, organization: organization.name, inviter, url })
    deps.afterAnswer.run('invitation', () => mailer.send(letter))
  }
  return { ...invitation, url, isMailed }
}

/** Ends an invitation. Throws NotFound if the organization has no live one of this id. */
export async function revokeInvitation(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  by: UserActor,
  organization: Organization,
  id: string,
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const [revoked] = await tx
      .update(invitations)
      .set({ endedAt: time })
      .where(and(eq(invitations.id, id), isOf(organization.id), isLive(time)))
      .returning({ id: invitations.id })
    if (!revoked) throw new NotFound('Invitation')
    await recordAudit(tx, time, {
      actor: `user:${by.userId}`,
      action: 'invitation.revoked',
      subject: `organization:${organization.id}`,
      details: { invitationId: id },
    })
  })
}

/**
 * Deletes invitations whose time is over, and what is known of removed members, which outlasts the invitations of before. No invitation
 * is younger than a day, so what a day may still be counted by stays.
 */
export async function discardInvitations({ db, now }: Pick<TenancyDeps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, invitations.expiresAt, now())
  await discardBefore(db, removedMembers.removedAt, new Date(now().getTime() - LIFETIME_MS - DAY_MS))
}
