import { and, asc, gt, or, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { users } from './table.ts'

/** A user as operators list them. */
export type ListedUser = Pick<
  typeof users.$inferSelect,
  'id' | 'email' | 'emailVerified' | 'givenName' | 'familyName' | 'suspendedAt' | 'createdAt'
>

interface Page {
  /** Part of an address or a name, in any case; everybody if absent. */
  search: string | undefined
  /** At least 1. */
  limit: number
  /** The id after which the page begins; from the beginning if absent. */
  after: string | undefined
}

/** A page of users, oldest first. Returns as `next` the id after which the next page begins, null on the last page. */
export async function listUsersPage(
  { db }: Pick<Deps, 'db'>,
  { search, limit, after }: Page,
): Promise<{ users: ListedUser[]; next: string | null }> {
  // strpos, since % and _ are letters here.
  const holds = (text: typeof users.email | ReturnType<typeof sql>) => sql`strpos(lower(${text}), lower(${search})) > 0`
  const rows = await db
    .select({
      id: users.id,
      email: users.email,
      emailVerified: users.emailVerified,
      givenName: users.givenName,
      familyName: users.familyName,
      suspendedAt: users.suspendedAt,
      createdAt: users.createdAt,
    })
    .from(users)
    .where(
      and(
        after === undefined ? undefined : gt(users.id, after),
        search === undefined
          ? undefined
          : or(holds(users.email), holds(sql`concat_ws(' ', ${users.givenName}, ${users.familyName})`)),
      ),
    )
    .orderBy(asc(users.id))
    .limit(limit + 1)
  const page = rows.slice(0, limit)
  return { users: page, next: rows.length > limit ? (page.at(-1)?.id ?? null) : null }
}
