import { NotFound } from '@platform/errors/api-error'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { DeployDeps } from '../deps.ts'
import {
  type Application,
  findNamedEnvironment,
  findNamedEnvironments,
  reachApplication,
} from '../../tenancy/applications/reach.ts'
import { environments, type EnvironmentSlug } from '../../tenancy/applications/table.ts'
import { members, type organizations } from '../../tenancy/organizations/table.ts'
import { reachOrganization } from '../../tenancy/organizations/reach.ts'
import { deployments } from './table.ts'

/**
 * Columns for showing a deployment: its row without the manifest and the sealed variables, its environment, and whether it is
 * current.
 */
const { output: _output, sealedVariables: _sealed, ...columns } = getTableColumns(deployments)
export const deploymentColumns = {
  ...columns,
  environment: environments.slug,
  isCurrent: sql<boolean>`${environments.currentDeploymentId} is not distinct from ${deployments.id}`,
}

type Row = Omit<typeof deployments.$inferSelect, 'output' | 'sealedVariables'>

/** A deployment with its environment's slug, and whether it is the environment's current one. */
export interface Deployment extends Row {
  environment: EnvironmentSlug
  isCurrent: boolean
}

const findWithMember = lazyPrepared((db) =>
  db
    .select({ ...deploymentColumns, role: members.role })
    .from(deployments)
    .innerJoin(environments, eq(environments.id, deployments.environmentId))
    .leftJoin(
      members,
      and(eq(members.organizationId, deployments.organizationId), eq(members.userId, sql.placeholder('userId'))),
    )
    .where(eq(deployments.id, sql.placeholder('id')))
    .prepare('deployment_with_role'),
)

/** The deployment, if the actor reaches its application; a foreign one is the same 404 as a missing one (D17). */
export async function reachDeployment(
  { deps, actor }: { deps: Pick<DeployDeps, 'db'>; actor: Actor },
  id: string,
): Promise<Deployment> {
  const [row] = await findWithMember(deps.db).execute({ id, userId: actor.kind === 'user' ? actor.userId : null })
  if (!row) throw new NotFound('Deployment')
  const { role, ...deployment } = row
  const isInReach = actor.kind !== 'user' ? actor.applicationId === deployment.applicationId : role !== null
  if (!isInReach) throw new NotFound('Deployment')
  return deployment
}

/** The scope of a list; decided by `reachDeploymentList`. slug: of the environments; undefined: of any. */
export type ListReach =
  | { kind: 'user'; userId: string; slug: EnvironmentSlug | undefined }
  | { kind: 'organization'; organization: typeof organizations.$inferSelect; slug: EnvironmentSlug | undefined }
  | { kind: 'application'; application: Application }
  | { kind: 'environment'; environmentId: string }
  /** The filters exclude each other. */
  | { kind: 'nothing' }

/**
 * The scope of a list: the deployments of a user's organizations or of an API key's application, narrowed by filters that must
 * name things the actor reaches (D17), and of an application that is named or the key's own, an environment that it has (D74).
 */
export async function reachDeploymentList(
  call: { deps: DeployDeps; actor: Actor },
  filters: {
    organizationId?: string | undefined
    applicationId?: string | undefined
    environment?: string | undefined
    environmentId?: string | undefined
  },
): Promise<ListReach> {
  const { actor } = call
  const applicationId = filters.applicationId ?? (actor.kind === 'user' ? undefined : actor.applicationId)
  const application = applicationId === undefined ? undefined : await reachApplication(call, applicationId)
  const { organizationId } = filters
  const organization =
    organizationId === undefined || application?.organizationId === organizationId
      ? undefined
      : await reachOrganization(call, organizationId)
  if (application) {
    const environment = await findNamedEnvironment(call, application, filters)
    if (organization) return { kind: 'nothing' }
    return environment ? { kind: 'environment', environmentId: environment.id } : { kind: 'application', application }
  }
  const { userId } = actor as Extract<Actor, { kind: 'user' }>
  const named = await findNamedEnvironments(call.deps, userId, filters)
  if (named?.id !== undefined) {
    const isElsewhere = organization && organization.id !== named.organizationId
    return isElsewhere ? { kind: 'nothing' } : { kind: 'environment', environmentId: named.id }
  }
  return organization
    ? { kind: 'organization', organization, slug: named?.slug }
    : { kind: 'user', userId, slug: named?.slug }
}

/** The row of a deployment, locked until the transaction ends. Lock it before its environment's and its application's rows. */
export async function lockDeployment(tx: DeployDeps['db'], id: string, more?: SQL): Promise<Row> {
  const [row] = await tx
    .select(columns)
    .from(deployments)
    .where(and(eq(deployments.id, id), more))
    .for('no key update')
  if (!row) throw new NotFound('Deployment')
  return row
}
