import { newId } from '@platform/runtime/new-id'
import { and, asc, eq, ne } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { profiles } from '../profiles/table.ts'
import type { Organization } from './reach.ts'
import { members, organizations, type Role } from './table.ts'

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

/** Adds a member or changes a member's role. For operators only: no endpoint does this (A §4). Safe to repeat. */
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

/** Changes members under a lock on their rows, so that of two concurrent changes one sees the other's result. */
function withMembers<T>(
  { db }: Pick<TenancyDeps, 'db'>,
  organizationId: string,
  change: (tx: TenancyDeps['db'], rows: readonly { userId: string; role: Role }[]) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    // A new member has no row to lock yet.
    await tx
      .select({ id: organizations.id })
      .from(organizations)
      .where(eq(organizations.id, organizationId))
      .for('update')
    const rows = await tx
      .select({ userId: members.userId, role: members.role })
      .from(members)
      .where(eq(members.organizationId, organizationId))
    return change(tx, rows)
  })
}

const isLastOwner = (rows: readonly { userId: string; role: Role }[], userId: string): boolean =>
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

/** Removes a user from an organization, unless they are its only OWNER. */
export const removeMember = (deps: Pick<TenancyDeps, 'db'>, organizationId: string, userId: string): Promise<Change> =>
  withMembers(deps, organizationId, async (db, rows) => {
    if (!rows.some((row) => row.userId === userId)) return 'missing'
    if (isLastOwner(rows, userId)) return 'last-owner'
    await db.delete(members).where(and(eq(members.organizationId, organizationId), eq(members.userId, userId)))
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
    const former = await db
      .delete(members)
      .where(and(eq(members.organizationId, organizationId), eq(members.role, 'OWNER'), ne(members.userId, userId)))
      .returning({ userId: members.userId })
    return former.map((row) => row.userId)
  })
