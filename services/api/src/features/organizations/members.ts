import { newId } from '@platform/runtime/new-id'
import { and, asc, eq, ne } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
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

/** Who belongs to the organization, in the order they joined (A §4). Names are null until the user was seen (D73). */
export const listMembers = ({ db }: Pick<Deps, 'db'>, organization: Organization): Promise<Member[]> =>
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

/** Makes a user a member, or changes the role of one. The operator's to call: no endpoint does it (A §4). Safe to repeat. */
export async function setMember(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
  role: Role,
): Promise<void> {
  await db
    .insert(members)
    .values({ id: newId(), organizationId, userId, role, joinedAt: now() })
    .onConflictDoUpdate({ target: [members.organizationId, members.userId], set: { role } })
}

/** Who belongs to an organization and as what, for the operator. */
export const memberRoles = ({ db }: Pick<Deps, 'db'>, organizationId: string) =>
  db
    .select({ userId: members.userId, email: profiles.email, role: members.role })
    .from(members)
    .leftJoin(profiles, eq(profiles.userId, members.userId))
    .where(eq(members.organizationId, organizationId))
    .orderBy(asc(members.joinedAt), asc(members.id))

/** The organizations that a user belongs to, for the operator. */
export const membershipsOf = ({ db }: Pick<Deps, 'db'>, userId: string) =>
  db
    .select({ organizationId: organizations.id, name: organizations.name, role: members.role })
    .from(members)
    .innerJoin(organizations, eq(organizations.id, members.organizationId))
    .where(eq(members.userId, userId))
    .orderBy(asc(organizations.id))

/** Takes a user out of an organization, unless nobody else is its OWNER. Of two at once that remove each other one succeeds. */
export async function removeMember(
  { db }: Pick<Deps, 'db'>,
  organizationId: string,
  userId: string,
): Promise<'removed' | 'missing' | 'last-owner'> {
  return db.transaction(async (tx) => {
    const rows = await tx
      .select({ userId: members.userId, role: members.role })
      .from(members)
      .where(eq(members.organizationId, organizationId))
      .orderBy(asc(members.id))
      .for('update')
    const member = rows.find((row) => row.userId === userId)
    if (!member) return 'missing'
    const hasOther = rows.some((row) => row.role === 'OWNER' && row.userId !== userId)
    if (member.role === 'OWNER' && !hasOther) return 'last-owner'
    await tx.delete(members).where(and(eq(members.organizationId, organizationId), eq(members.userId, userId)))
    return 'removed'
  })
}

/** Makes a user the only OWNER; those who were leave the organization. Returns their user ids. Safe to repeat. */
export async function transferOrganization(
  deps: Pick<Deps, 'db' | 'now'>,
  organizationId: string,
  userId: string,
): Promise<string[]> {
  return deps.db.transaction(async (db) => {
    await setMember({ ...deps, db }, organizationId, userId, 'OWNER')
    const former = await db
      .delete(members)
      .where(and(eq(members.organizationId, organizationId), eq(members.role, 'OWNER'), ne(members.userId, userId)))
      .returning({ userId: members.userId })
    return former.map((row) => row.userId)
  })
}
