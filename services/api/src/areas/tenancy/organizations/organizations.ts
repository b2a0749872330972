import { Conflict } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, getTableColumns, lt } from 'drizzle-orm'
import type { Actor, UserActor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import type { KeysetPage } from '../../../http/pages.ts'
import { refuseReservedLabel, slugsFor } from './labels.ts'
import type { Organization } from './reach.ts'
import { members, memberships, organizations } from './table.ts'

const SLUG_ATTEMPTS = 6

/**
 * Creates an organization with the caller as its owner, in one transaction (A §4). A slug chosen by the caller must be free
 * (409); one derived from the name gets an ending until it is (D75). Starts on the operator's default plan (D77). Throws Forbidden
 * if the caller owns as many as they may (D113).
 */
export async function createOrganization(
  { db, now, startPlan, requireOwnerQuota }: Pick<TenancyDeps, 'db' | 'now' | 'startPlan' | 'requireOwnerQuota'>,
  by: UserActor,
  newOrganization: { name: string; slug?: string | undefined },
): Promise<Organization> {
  if (newOrganization.slug !== undefined) refuseReservedLabel(newOrganization.slug)
  const time = now()
  return db.transaction(async (tx) => {
    await requireOwnerQuota(tx, by.userId)
    const insert = (slug: string) =>
      tx
        .insert(organizations)
        .values({ id: newId(), name: newOrganization.name, slug, createdAt: time, updatedAt: time })
        .onConflictDoNothing({ target: organizations.slug })
        .returning()
    const candidates =
      newOrganization.slug === undefined
        ? slugsFor(newOrganization.name, 'organization').take(SLUG_ATTEMPTS)
        : [newOrganization.slug]
    for (const slug of candidates) {
      const [made] = await insert(slug)
      if (!made) continue
      await tx
        .insert(members)
        .values({ id: newId(), organizationId: made.id, userId: by.userId, role: 'OWNER', joinedAt: time })
      await startPlan(tx, made.id)
      return made
    }
    throw new Conflict('An organization with this slug exists')
  })
}

/** A page of the user's organizations, newest first; empty for an API key or a Function (A §1 Keyset, D30). */
export async function organizationsPage(
  { db }: Pick<TenancyDeps, 'db'>,
  actor: Actor,
  page: KeysetPage,
): Promise<{ items: Organization[]; total: number }> {
  if (actor.kind !== 'user') return { items: [], total: 0 }
  const mine = eq(members.userId, actor.userId)
  // Selects the page before joining: in a single join, Postgres may walk through all organizations down to `from`.
  const onPage = db
    .select({ id: members.organizationId })
    .from(members)
    .where(and(mine, page.from === undefined ? undefined : lt(members.organizationId, page.from)))
    .orderBy(desc(members.organizationId))
    .limit(page.limit)
    .as('on_page')
  const [items, counted] = await Promise.all([
    db
      .select(getTableColumns(organizations))
      .from(onPage)
      .innerJoin(organizations, eq(organizations.id, onPage.id))
      .orderBy(desc(onPage.id)),
    db.select({ total: memberships.organizations }).from(memberships).where(eq(memberships.userId, actor.userId)),
  ])
  return { items, total: counted[0]?.total ?? 0 }
}
