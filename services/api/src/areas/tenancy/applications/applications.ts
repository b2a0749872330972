import { Conflict, QuotaExceeded } from '@platform/errors/api-error'
import { isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, getTableColumns, lt, sql, sum } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { asWholeSet, type KeysetPage } from '../../../http/pages.ts'
import { refuseReservedLabel, slugsFor } from '../organizations/labels.ts'
import type { Organization } from '../organizations/reach.ts'
import { members, organizations } from '../organizations/table.ts'
import { quotaOf } from '../products/quotas.ts'
import type { Application } from './reach.ts'
import { refuseClimbing } from './root-directory.ts'
import { applications, environments } from './table.ts'

const SLUG_ATTEMPTS = 6

/** An application as the API shows it (wire.md). */
type ShownApplication = Application & { organization: Organization; defaultEnvironmentSlug: 'production' }

const shown = (application: Application, organization: Organization): ShownApplication => ({
  ...application,
  organization,
  defaultEnvironmentSlug: 'production',
})

interface NewApplication {
  name: string
  slug?: string | undefined
  rootDirectory?: string | undefined
}

/**
 * Creates an application with its two environments, in one transaction. Counts the plan's quota under a lock on the
 * organization's row, so concurrent creations cannot exceed it (A §4, D74, D77).
 */
export async function createApplication(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  organization: Organization,
  newApplication: NewApplication,
): Promise<ShownApplication> {
  refuseClimbing(newApplication.rootDirectory)
  if (newApplication.slug !== undefined) refuseReservedLabel(newApplication.slug)
  const time = now()
  try {
    return await db.transaction(async (tx) => {
      const { used } = one(
        await tx
          .select({ used: organizations.applicationCount })
          .from(organizations)
          .where(eq(organizations.id, organization.id))
          .for('no key update'),
      )
      const limit = await quotaOf({ db: tx }, organization.id, 'applications')
      if (used >= limit) throw new QuotaExceeded('applications', used, limit)

      const row = {
        organizationId: organization.id,
        name: newApplication.name,
        rootDirectory: newApplication.rootDirectory || null, // an empty one means the root, as does none
        createdAt: time,
        updatedAt: time,
      }
      const candidates =
        newApplication.slug === undefined
          ? slugsFor(newApplication.name, 'application').take(SLUG_ATTEMPTS)
          : [newApplication.slug]
      for (const slug of candidates) {
        const [made] = await tx
          .insert(applications)
          .values({ id: newId(), slug, ...row })
          .onConflictDoNothing({ target: [applications.organizationId, applications.slug] })
          .returning()
        if (!made) continue
        await tx.insert(environments).values([
          { id: newId(), applicationId: made.id, slug: 'production', name: 'Production' },
          { id: newId(), applicationId: made.id, slug: 'preview', name: 'Preview' },
        ])
        return shown(made, organization)
      }
      throw new Conflict('An application with this slug exists in the organization')
    })
  } catch (error) {
    if (isUniqueViolation(error, 'applications_name'))
      throw new Conflict('An application with this name exists in the organization')
    throw error
  }
}

/** The environments of an application, production first (D94). */
export async function listEnvironments({ db }: Pick<TenancyDeps, 'db'>, application: Application) {
  const rows = await db
    .select({ id: environments.id, slug: environments.slug, name: environments.name })
    .from(environments)
    .where(eq(environments.applicationId, application.id))
    .orderBy(desc(environments.slug))
  return asWholeSet(rows)
}

/** The scope of a list; decided by `reachList`. */
export type ListReach =
  | { kind: 'user'; userId: string }
  | { kind: 'organization'; organization: Organization }
  | { kind: 'application'; application: Application; organization: Organization }

/**
 * A page of the applications in reach, newest first (A §1 Keyset, D30). Its cost does not grow with the list: triggers keep
 * `total`, and across several organizations the newest of each are read and merged.
 */
export async function applicationsPage(
  { db }: Pick<TenancyDeps, 'db'>,
  reach: ListReach,
  page: KeysetPage,
): Promise<{ items: ShownApplication[]; total: number }> {
  const beyond = page.from === undefined ? undefined : lt(applications.id, page.from)
  switch (reach.kind) {
    case 'application': {
      const { application, organization } = reach
      const isBeyond = page.from === undefined || application.id < page.from
      return { items: isBeyond ? [shown(application, organization)] : [], total: 1 }
    }
    case 'organization': {
      const { organization } = reach
      const rows = await db
        .select()
        .from(applications)
        .where(and(eq(applications.organizationId, organization.id), beyond))
        .orderBy(desc(applications.id))
        .limit(page.limit)
      return { items: rows.map((row) => shown(row, organization)), total: organization.applicationCount }
    }
    case 'user': {
      const mine = eq(members.userId, reach.userId)
      const latest = db
        .select()
        .from(applications)
        .where(and(eq(applications.organizationId, members.organizationId), beyond))
        .orderBy(desc(applications.id))
        .limit(page.limit)
        .as('latest')
      const [rows, counted] = await Promise.all([
        db
          .select({ application: latest._.selectedFields, organization: getTableColumns(organizations) })
          .from(members)
          .innerJoinLateral(latest, sql`true`)
          .innerJoin(organizations, eq(organizations.id, members.organizationId))
          .where(mine)
          .orderBy(desc(latest.id))
          .limit(page.limit),
        db
          .select({ total: sum(organizations.applicationCount).mapWith(Number) })
          .from(members)
          .innerJoin(organizations, eq(organizations.id, members.organizationId))
          .where(mine),
      ])
      const items = rows.map(({ application, organization }) => shown(application, organization))
      return { items, total: counted[0]?.total ?? 0 }
    }
  }
}
