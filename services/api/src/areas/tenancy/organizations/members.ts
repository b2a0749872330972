import { newId } from '@platform/runtime/new-id'
import { and, asc, eq, isNull, ne, type SQL } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { invitations } from './invitations-table.ts'
import { profiles } from '../profiles/table.ts'
import type { Organization } from './reach.ts'
import { members, organizations, removedMembers, type Role } from './table.ts'

interface Member {
  membershipId: string
  organizationId: string
  userId: string
  email: string | null
  givenName: string | null
  familyName: string | null
  imageUrl: string | null
  role: Role
  joinedAt: Date
}

/** The organization's members, in the order they joined (A §4). Names are null until the user was seen (D73). */
export const listMembers = ({ db }: Pick<TenancyDeps, 'db'>, organization: Organization): Promise<Member[]> =>
  db
    .select({
      membershipId: members.id,
      organizationId: members.organizationId,
      userId: members.userId,
      email: profiles.email,
      givenName: profiles.givenName,
      familyName: profiles.familyName,
      imageUrl: profiles.imageUrl,
      role: members.role,
      joinedAt: members.joinedAt,
    })
    .from(members)
    .leftJoin(profiles, eq(profiles.userId, members.userId))
    .where(eq(members.organizationId, organization.id))
    .orderBy(asc(members.joinedAt), asc(members.id))

/**
 * Adds a member or changes a member's role, and ends the invitations that they made and may no longer make. For operators and for
 * invited people who accepted: no endpoint does this (A §4, D112). Safe to repeat.
 */
export async function setMember(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
  role: Role,
): Promise<void> {
  await db
    .insert(members)
    .values({ id: newId(), organizationId, userId, role, joinedAt: now() })
    .onConflictDoUpdate({ target: [members.organizationId, members.userId], set: { role } })
  if (role === 'OWNER') return
  await db
    .update(invitations)
    .set({ endedAt: now() })
    .where(
      and(
        eq(invitations.organizationId, organizationId),
        eq(invitations.invitedByUserId, userId),
        isNull(invitations.endedAt),
        role === 'ADMIN' ? eq(invitations.role, 'OWNER') : undefined,
      ),
    )
}

/** The members of an organization and their roles, for the operator. */
export const memberRoles = ({ db }: Pick<TenancyDeps, 'db'>, organizationId: string) =>
  db
    .select({ userId: members.userId, email: profiles.email, role: members.role })
    .from(members)
    .leftJoin(profiles, eq(profiles.userId, members.userId))
    .where(eq(members.organizationId, organizationId))
    .orderBy(asc(members.joinedAt), asc(members.id))

/** A user's organizations, for the operator. */
export const membershipsOf = ({ db }: Pick<TenancyDeps, 'db'>, userId: string) =>
  db
    .select({ organizationId: organizations.id, name: organizations.name, role: members.role })
    .from(members)
    .innerJoin(organizations, eq(organizations.id, members.organizationId))
    .where(eq(members.userId, userId))
    .orderBy(asc(organizations.id))

type Change = 'done' | 'missing' | 'last-owner'

/** A member, as far as decisions about members look. */
export interface MemberRow {
  id: string
  userId: string
  role: Role
}

/**
 * Locks an organization until the transaction ends, and reads its members: of two concurrent changes one sees the other's result.
 */
export async function lockMembers(tx: TenancyDeps['db'], organizationId: string): Promise<MemberRow[]> {
  // A new member has no row to lock yet.
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
    .for('update')
  return tx
    .select({ id: members.id, userId: members.userId, role: members.role })
    .from(members)
    .where(eq(members.organizationId, organizationId))
}

/** Changes members, or what hangs on their roles, in a transaction that has locked them. */
export const withMembers = <T>(
  { db }: Pick<TenancyDeps, 'db'>,
  organizationId: string,
  change: (tx: TenancyDeps['db'], rows: readonly MemberRow[]) => Promise<T>,
): Promise<T> => db.transaction(async (tx) => change(tx, await lockMembers(tx, organizationId)))

/** Whether an organization of these members would have no OWNER without this one. */
export const isLastOwner = (rows: readonly MemberRow[], userId: string): boolean =>
  rows.some((row) => row.userId === userId && row.role === 'OWNER') &&
  !rows.some((row) => row.userId !== userId && row.role === 'OWNER')

/** Adds a member or changes a member's role, unless that leaves the organization without an OWNER. */
export const changeRole = (
  deps: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
  role: Role,
): Promise<Change> =>
  withMembers(deps, organizationId, async (db, rows) => {
    if (role !== 'OWNER' && isLastOwner(rows, userId)) return 'last-owner'
    await setMember({ ...deps, db }, organizationId, userId, role)
    return 'done'
  })

/**
 * Ends memberships, and writes down when, so that no invitation of before brings these users back (D112). Only while lockMembers
 * holds: an invitation was either made before this or is made after it. Returns the user ids.
 */
export async function endMemberships(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  which: SQL | undefined,
): Promise<string[]> {
  const removedAt = now()
  const ended = await db
    .delete(members)
    .where(and(eq(members.organizationId, organizationId), which))
    .returning({ userId: members.userId })
  if (ended.length > 0)
    await db
      .insert(removedMembers)
      .values(ended.map(({ userId }) => ({ organizationId, userId, removedAt })))
      .onConflictDoUpdate({ target: [removedMembers.organizationId, removedMembers.userId], set: { removedAt } })
  return ended.map(({ userId }) => userId)
}

/** When a user last stopped being a member of an organization; undefined if they never were, or long ago. */
export async function removedAtOf(
  { db }: Pick<TenancyDeps, 'db'>,
  organizationId: string,
  userId: string,
): Promise<Date | undefined> {
  const [row] = await db
    .select({ removedAt: removedMembers.removedAt })
    .from(removedMembers)
    .where(and(eq(removedMembers.organizationId, organizationId), eq(removedMembers.userId, userId)))
  return row?.removedAt
}

/** Removes a user from an organization, unless they are its only OWNER. */
export const removeMember = (
  deps: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
): Promise<Change> =>
  withMembers(deps, organizationId, async (db, rows) => {
    if (!rows.some((row) => row.userId === userId)) return 'missing'
    if (isLastOwner(rows, userId)) return 'last-owner'
    await endMemberships({ ...deps, db }, organizationId, eq(members.userId, userId))
    return 'done'
  })

/**
 * Makes a user the only OWNER; previous owners leave the organization. Returns their user ids. Returns undefined, changing
 * nothing, if the user is not a member and has never called this API: a mistyped id would leave the organization to nobody.
 */
export const transferOrganization = (
  deps: Pick<TenancyDeps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
): Promise<string[] | undefined> =>
  withMembers(deps, organizationId, async (db, rows) => {
    const isMember = rows.some((row) => row.userId === userId)
    const [profile] = await db.select({ id: profiles.userId }).from(profiles).where(eq(profiles.userId, userId))
    if (!isMember && !profile) return undefined
    await setMember({ ...deps, db }, organizationId, userId, 'OWNER')
    return endMemberships({ ...deps, db }, organizationId, and(eq(members.role, 'OWNER'), ne(members.userId, userId)))
  })
