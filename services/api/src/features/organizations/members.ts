import { newId } from '@platform/runtime/new-id'
import { asc, eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { profiles } from '../profiles/table.ts'
import type { Organization } from './reach.ts'
import { members, type Role } from './table.ts'

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
