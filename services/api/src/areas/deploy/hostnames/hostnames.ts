import { Conflict } from '@platform/errors/api-error'
import { isDeadlock, isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, isNull, ne, or, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { Actor } from '../../../http/actor.ts'
import type { DeployDeps } from '../deps.ts'
import { asWholeSet } from '../../../http/pages.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import { hostnames, isEnvironmentOfHostname } from '../../tenancy/applications/hostnames-table.ts'
import { hostnameOf, siteUrlOf } from '../../tenancy/applications/hostname-url.ts'
import type { Application } from '../../tenancy/applications/reach.ts'
import { environments } from '../../tenancy/applications/table.ts'
import type { Deployment } from '../deployments/reach.ts'
import { deployments } from '../deployments/table.ts'
import { refuseReservedLabel, whyReserved } from '../../tenancy/organizations/labels.ts'

/** The label of the preview environment's hostname. Labels that can be set never contain two hyphens in a row (D76). */
const previewLabelOf = (label: string): string => `${label}--preview`

interface ShownHostname {
  id: string
  hostname: string
  type: 'DEPLOYMENT' | 'BRANCH' | 'APP'
  /** True if a deployment answers there. */
  active: boolean
  deploymentId: string | null
  branchId: string | null
  source: 'system' | 'user'
  /** With scheme and port, as a browser opens it (D92). */
  url: string
  createdAt: Date
}

interface HostnameList {
  items: ShownHostname[]
  total: number
  /** The production label; null until one is set (D76). */
  label: string | null
}

const current = alias(deployments, 'current')

/** Hostnames with what they serve: DEPLOYMENT hostnames by their row, all others by their environment (D83). */
async function hostnamesWhere(
  deps: Pick<DeployDeps, 'db' | 'appsUrl'>,
  where: SQL | undefined,
): Promise<ShownHostname[]> {
  const rows = await deps.db
    .select({
      hostname: hostnames,
      own: { status: deployments.status, retiredAt: deployments.retiredAt },
      currentId: current.id,
    })
    .from(hostnames)
    .leftJoin(deployments, eq(deployments.id, hostnames.deploymentId))
    .leftJoin(environments, isEnvironmentOfHostname)
    .leftJoin(current, eq(current.id, environments.currentDeploymentId))
    .where(where)
    .orderBy(desc(hostnames.id))
  return rows.map(({ hostname: { id, label, type, deploymentId, branchId, source, createdAt }, own, currentId }) => ({
    id,
    hostname: hostnameOf(deps, label),
    type,
    active: own ? own.status === 'ACTIVE' && own.retiredAt === null : currentId !== null,
    deploymentId: own ? deploymentId : currentId,
    branchId,
    source,
    url: siteUrlOf(deps, label),
    createdAt,
  }))
}

/** The hostnames of the application's environments and of its deployments that still answer, newest first (A §4, D32, D83). */
export async function listHostnames(
  deps: Pick<DeployDeps, 'db' | 'appsUrl'>,
  application: Application,
): Promise<HostnameList> {
  const answers = and(eq(deployments.status, 'ACTIVE'), isNull(deployments.retiredAt))
  const [items, [production]] = await Promise.all([
    hostnamesWhere(deps, and(eq(hostnames.applicationId, application.id), or(isNull(hostnames.deploymentId), answers))),
    deps.db
      .select({ label: hostnames.label })
      .from(hostnames)
      .where(and(eq(hostnames.applicationId, application.id), eq(hostnames.type, 'APP'))),
  ])
  return { items, total: items.length, label: production?.label ?? null }
}

/** A deployment's own hostname, and its environment's hostnames while it is current there; newest first. */
export async function listDeploymentHostnames(
  deps: Pick<DeployDeps, 'db' | 'appsUrl'>,
  { id, applicationId, environment, isCurrent }: Deployment,
): Promise<{ items: ShownHostname[]; total: number }> {
  const type = environment === 'production' ? 'APP' : 'BRANCH'
  const ofEnvironment = and(eq(hostnames.applicationId, applicationId), eq(hostnames.type, type))
  return asWholeSet(
    await hostnamesWhere(deps, or(eq(hostnames.deploymentId, id), isCurrent ? ofEnvironment : undefined)),
  )
}

/** Checks whether an application could have a label; its current one counts as available (D76). */
export async function checkAvailability(
  { db }: Pick<DeployDeps, 'db'>,
  application: Application,
  label: string,
): Promise<{ available: boolean; reason?: string }> {
  const reason = whyReserved(label)
  if (reason !== undefined) return { available: false, reason }
  const [taken] = await db
    .select({ id: hostnames.id })
    .from(hostnames)
    .where(and(eq(hostnames.label, label), ne(hostnames.applicationId, application.id)))
  return taken ? { available: false, reason: 'The hostname is taken' } : { available: true }
}

/**
 * Sets the production hostname, before or after any deployment, and with it the preview environment's. If two applications claim
 * one label at once, the unique index decides (A §4, D76). Throws BadRequest for a reserved label, Conflict for a taken one.
 */
export async function setHostname(
  deps: Pick<DeployDeps, 'db' | 'now' | 'appsUrl'>,
  by: Actor,
  application: Application,
  label: string,
): Promise<{ label: string; hostname: string; live: boolean }> {
  refuseReservedLabel(label)
  const applicationId = application.id
  try {
    return await deps.db.transaction(async (tx) => {
      const time = deps.now()
      const take = async (type: 'APP' | 'BRANCH', own: string) =>
        one(
          await tx
            .insert(hostnames)
            .values({ id: newId(), applicationId, type, label: own, source: 'user', createdAt: time })
            .onConflictDoUpdate({
              target: hostnames.applicationId,
              // A literal, since Postgres matches a partial index by the text of its condition.
              targetWhere: sql.raw(`type = '${type}'`),
              set: { label: own },
            })
            .returning({ id: hostnames.id }),
        )
      await take('BRANCH', previewLabelOf(label))
      const { id } = await take('APP', label)
      const hostname = hostnameOf(deps, label)
      const subject = { type: 'hostname', id, label, hostname }
      await recordActivity(tx, time, { applicationId, type: 'hostname.set', by, subject })
      const [production] = await hostnamesWhere({ ...deps, db: tx }, eq(hostnames.id, id))
      return { label, hostname, live: production?.active ?? false }
    })
  } catch (error) {
    // Two applications that swap labels deadlock until Postgres aborts one.
    if (isUniqueViolation(error, 'hostnames_label') || isDeadlock(error))
      throw new Conflict(`The hostname ${label} is taken`)
    throw error
  }
}
