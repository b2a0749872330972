import { BadRequest, Forbidden, InvalidToken, NotFound } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { batchPerTick } from '@platform/runtime/batch-per-tick'
import { isUuid } from '@platform/runtime/is-uuid'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, getTableColumns } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import { lookups, type AskedFor, requireRole, type Need, type Organization } from '../organizations/reach.ts'
import { members, organizations } from '../organizations/table.ts'
import { applications, environments, environmentSlugs, type EnvironmentSlug } from './table.ts'

export type Application = typeof applications.$inferSelect
export type Environment = typeof environments.$inferSelect

/** The environment if none is named (wire.md). */
const DEFAULT_ENVIRONMENT: EnvironmentSlug = 'production'

/** The application and the caller's role in its organization: one statement for all requests of a tick. */
const findWithRole = lazyPrepared((db) => {
  const query = db
    .select({ ...getTableColumns(applications), role: members.role, n: lookups.n })
    .from(lookups.from)
    .innerJoin(applications, eq(applications.id, lookups.columns.id))
    .leftJoin(
      members,
      and(eq(members.organizationId, applications.organizationId), eq(members.userId, lookups.columns.userId)),
    )
    .prepare('applications_with_roles')
  return batchPerTick(async (keys: readonly AskedFor[]) =>
    lookups.inOrder(keys, await query.execute(lookups.parameters(keys))),
  )
})

/**
 * The application, if the actor reaches it (D17). A user outside its organization gets the same 404 as for a missing one. An API
 * key or Function of another application gets 403; one whose own application was deleted gets 401 (D3).
 */
export async function reachApplication(
  { deps, actor }: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  id: string,
  need: Need = 'member',
): Promise<Application> {
  const row = await findWithRole(deps.db)({ id, userId: actor.kind === 'user' ? actor.userId : null })
  if (actor.kind !== 'user') {
    if (!row && actor.applicationId === id) throw new InvalidToken('The application of this API key no longer exists')
    if (row && actor.applicationId !== id) throw new Forbidden()
  }
  if (!row) throw new NotFound('Application')
  if (actor.kind === 'user') {
    if (!row.role) throw new NotFound('Application')
    actor.organizationId = row.organizationId
    requireRole(row.role, need)
  } else actor.organizationId = row.organizationId
  return row
}

/**
 * An environment of a reached application, by slug or UUID (D74). For a Function any environment but its own is Forbidden,
 * whether it exists or not (D9). Throws NotFound.
 *
 * reference: undefined means a Function's own environment, and production for everybody else.
 */
export async function reachEnvironmentOf(
  { deps: { db }, actor }: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  application: Application,
  reference: string | undefined,
): Promise<Environment> {
  const rows = await db.select().from(environments).where(eq(environments.applicationId, application.id))
  const sought = reference ?? (actor.kind === 'function' ? actor.environmentId : DEFAULT_ENVIRONMENT)
  const environment = rows.find(({ id, slug }) => slug === sought || id === sought.toLowerCase())
  if (actor.kind === 'function' && environment?.id !== actor.environmentId) throw new Forbidden()
  if (!environment) throw new NotFound('Environment')
  return environment
}

/** An environment as requests name it: by `environment`, `environmentId` or both; each accepts a slug or a UUID (D35). */
interface EnvironmentNames {
  environment?: string | undefined
  environmentId?: string | undefined
}

/** Looks up the names that are there. Throws BadRequest if they contradict each other. */
async function findEach<T extends { id?: string; slug: EnvironmentSlug }>(
  { environment, environmentId }: EnvironmentNames,
  find: (reference: string) => Promise<T>,
): Promise<T[]> {
  const references = [environment, environmentId].filter((reference) => reference !== undefined)
  const found = await Promise.all(references.map(find))
  const idsNamed = new Set(found.flatMap(({ id }) => id ?? []))
  if (new Set(found.map(({ slug }) => slug)).size > 1 || idsNamed.size > 1)
    throw new BadRequest('environment and environmentId name different environments')
  return found
}

/**
 * The environment that a request names. Returns undefined if it names none. Throws NotFound, Forbidden for a Function of another
 * environment, and BadRequest if it names two.
 */
export async function findNamedEnvironment(
  call: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  application: Application,
  names: EnvironmentNames,
): Promise<Environment | undefined> {
  const [environment] = await findEach(names, (reference) => reachEnvironmentOf(call, application, reference))
  return environment
}

/** An environment that a user reaches, or all that have a slug. */
export type NamedEnvironments =
  | { id: string; slug: EnvironmentSlug; organizationId: string }
  | { id?: never; slug: EnvironmentSlug }

/**
 * The same where a user names no application: a slug stands for the environments of all applications. Throws NotFound, also for a
 * slug that no application has (D74), and BadRequest if the request names two.
 */
export async function findNamedEnvironments(
  { db }: Pick<TenancyDeps, 'db'>,
  userId: string,
  names: EnvironmentNames,
): Promise<NamedEnvironments | undefined> {
  const found = await findEach(names, async (reference): Promise<NamedEnvironments> => {
    if (!isUuid(reference)) {
      const slug = environmentSlugs.find((known) => known === reference)
      if (slug === undefined) throw new NotFound('Environment')
      return { slug }
    }
    const [row] = await db
      .select({ id: environments.id, slug: environments.slug, organizationId: applications.organizationId })
      .from(environments)
      .innerJoin(applications, eq(applications.id, environments.applicationId))
      .innerJoin(members, and(eq(members.organizationId, applications.organizationId), eq(members.userId, userId)))
      .where(eq(environments.id, reference))
    if (!row) throw new NotFound('Environment')
    return row
  })
  return found.find(({ id }) => id !== undefined) ?? found[0]
}

/** The organization of a reached application. */
export async function organizationOf({ db }: Pick<TenancyDeps, 'db'>, application: Application): Promise<Organization> {
  return one(await db.select().from(organizations).where(eq(organizations.id, application.organizationId)))
}
