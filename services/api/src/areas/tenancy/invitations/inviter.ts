import { eq } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { profiles } from '../profiles/table.ts'

interface Profile {
  email: string | null
  givenName: string | null
  familyName: string | null
}

/** What a person is called: by name, else by address; undefined if neither is known (D73). */
export const nameOf = ({ email, givenName, familyName }: Profile): string | undefined =>
  [givenName, familyName].filter(Boolean).join(' ') || (email ?? undefined)

/** The name by which a letter tells who invites; undefined if none is known. */
export async function getInviterName({ db }: Pick<TenancyDeps, 'db'>, userId: string): Promise<string | undefined> {
  const [profile] = await db
    .select({ email: profiles.email, givenName: profiles.givenName, familyName: profiles.familyName })
    .from(profiles)
    .where(eq(profiles.userId, userId))
  return profile && nameOf({ ...profile, email: null })
}
