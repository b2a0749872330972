import { randomBytes } from 'node:crypto'
import { QuotaExceeded } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { firstIdAt, newId } from '@platform/runtime/new-id'
import { and, count, desc, eq, gte, lt, sql, type SQL, sum } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { DeployDeps } from '../deps.ts'
import type { KeysetPage } from '../../../http/pages.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import type { Application, Environment } from '../../tenancy/applications/reach.ts'
import { refuseClimbing } from '../../tenancy/applications/root-directory.ts'
import { applications, environments } from '../../tenancy/applications/table.ts'
import { members, organizations } from '../../tenancy/organizations/table.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { requireBillable } from './billing.ts'
import type { GitMetadata } from './git-metadata.ts'
import { type Deployment, deploymentColumns, type ListReach } from './reach.ts'
import { shownDeployment, type ShownDeployment } from './shown-deployment.ts'
import { deploymentCounts, deployments, type DeploymentStatus, environmentDeploymentCounts } from './table.ts'

const DAY_MS = 86_400_000

/** The start of an instant's UTC day, and of the next one. */
const dayOf = (time: Date): Date => new Date(Math.floor(time.getTime() / DAY_MS) * DAY_MS)
export const dayAfter = (time: Date): Date => new Date(dayOf(time).getTime() + DAY_MS)

/** The number of deployments that an organization has created in this UTC day; every creation counts (D77). */
export async function deploymentsToday(
  { db, now }: Pick<DeployDeps, 'db' | 'now'>,
  organizationId: string,
): Promise<number> {
  const { used } = one(
    await db
      .select({ used: count() })
      .from(deployments)
      .where(and(eq(deployments.organizationId, organizationId), gte(deployments.id, firstIdAt(dayOf(now()))))),
  )
  return used
}

/** Claims the hostname `{slug}-{8 hex}` in the transaction: no label that can be set ends so (D76). */
async function takeHostname(
  tx: DeployDeps['db'],
  time: Date,
  application: Application,
  deploymentId: string,
): Promise<string> {
  for (;;) {
    const label = `${application.slug}-${randomBytes(4).toString('hex')}`
    const taken = await tx
      .insert(hostnames)
      .values({
        id: newId(),
        applicationId: application.id,
        type: 'DEPLOYMENT',
        label,
        source: 'system',
        deploymentId,
        createdAt: time,
      })
      .onConflictDoNothing({ target: hostnames.label })
      .returning({ id: hostnames.id })
    if (taken.length > 0) return label
  }
}

/**
 * Creates a deployment that waits for its archive. Its sequence number in its environment is fixed here: an older deployment that
 * takes longer to build never replaces a newer one (D81).
 *
 * Checks billing before the quota (D46), both under a lock on the organization's row that makes other creators wait. Throws
 * PaymentRequired, QuotaExceeded, and BadRequest for a root directory that contains `..`.
 */
export async function createDeployment(
  deps: Pick<DeployDeps, 'db' | 'now' | 'appsUrl'>,
  by: Actor,
  { application, environment }: { application: Application; environment: Environment },
  { rootDirectory, git }: { rootDirectory: string | undefined; git: GitMetadata | null },
): Promise<ShownDeployment> {
  refuseClimbing(rootDirectory)
  const { organizationId } = application
  return deps.db.transaction(async (tx) => {
    const within = { ...deps, db: tx }
    await tx
      .select({ id: organizations.id })
      .from(organizations)
      .where(eq(organizations.id, organizationId))
      .for('no key update')
    await requireBillable(within, organizationId)
    const limit = await quotaOf(within, organizationId, 'deployments_per_day')
    const used = await deploymentsToday(within, organizationId)
    if (used >= limit) throw new QuotaExceeded('deployments_per_day', used, limit)

    const time = deps.now()
    const id = newId()
    const { seq, currentDeploymentId } = one(
      await tx
        .update(environments)
        .set({ lastSeq: sql`${environments.lastSeq} + 1` })
        .where(eq(environments.id, environment.id))
        .returning({ seq: environments.lastSeq, currentDeploymentId: environments.currentDeploymentId }),
    )
    const label = await takeHostname(tx, time, application, id)
    const row: Deployment = {
      ...one(
        await tx
          .insert(deployments)
          .values({
            id,
            organizationId,
            applicationId: application.id,
            environmentId: environment.id,
            seq,
            status: 'PENDING',
            label,
            rootDirectory: rootDirectory ?? null,
            git,
            createdBy: by.kind === 'user' ? { type: 'user', id: by.userId } : { type: 'api_key', id: by.keyId },
            createdAt: time,
            updatedAt: time,
          })
          .returning(),
      ),
      environment: environment.slug,
      isCurrent: currentDeploymentId === id,
    }
    const subject = { type: 'deployment', id, label, environmentId: environment.id }
    await recordActivity(tx, time, { applicationId: application.id, type: 'deployment.created', by, subject })
    return shownDeployment(deps, row)
  })
}

/** The ids of the newest matching deployments. */
const newestIds = (db: DeployDeps['db'], where: SQL | undefined, { from, limit }: KeysetPage) =>
  db
    .select({ id: deployments.id })
    .from(deployments)
    .where(and(where, from === undefined ? undefined : lt(deployments.id, from)))
    .orderBy(desc(deployments.id))
    .limit(limit)

/** A page of deployments with their environments. */
function newest(db: DeployDeps['db'], where: SQL | undefined, page: KeysetPage): Promise<Deployment[]> {
  const latest = newestIds(db, where, page).as('latest')
  return db
    .select(deploymentColumns)
    .from(latest)
    .innerJoin(deployments, eq(deployments.id, latest.id))
    .innerJoin(environments, eq(environments.id, deployments.environmentId))
    .orderBy(desc(latest.id))
}

/** The same across a user's organizations: reads a page of each and returns the newest of them. */
function newestOfUser(
  db: DeployDeps['db'],
  userId: string,
  where: SQL | undefined,
  page: KeysetPage,
): Promise<Deployment[]> {
  const ofMember = eq(deployments.organizationId, members.organizationId)
  const latest = newestIds(db, and(ofMember, where), page).as('latest')
  return db
    .select(deploymentColumns)
    .from(members)
    .innerJoinLateral(latest, sql`true`)
    .innerJoin(deployments, eq(deployments.id, latest.id))
    .innerJoin(environments, eq(environments.id, deployments.environmentId))
    .where(eq(members.userId, userId))
    .orderBy(desc(latest.id))
    .limit(page.limit)
}

/** The same across environments, each of which an index leads to. of: a condition on them and their applications. */
function newestOfEnvironments(
  db: DeployDeps['db'],
  of: SQL | undefined,
  where: SQL | undefined,
  page: KeysetPage,
): Promise<Deployment[]> {
  const latest = newestIds(db, and(eq(deployments.environmentId, environments.id), where), page).as('latest')
  return db
    .select(deploymentColumns)
    .from(environments)
    .innerJoin(applications, eq(applications.id, environments.applicationId))
    .innerJoinLateral(latest, sql`true`)
    .innerJoin(deployments, eq(deployments.id, latest.id))
    .where(of)
    .orderBy(desc(latest.id))
    .limit(page.limit)
}

/** Counts the deployments of some applications by state; triggers keep the counts. */
async function countDeployments(
  db: DeployDeps['db'],
  of: SQL | undefined,
  status: DeploymentStatus | undefined,
): Promise<number> {
  const [counted] = await db
    .select({ total: sum(deploymentCounts.deployments).mapWith(Number) })
    .from(deploymentCounts)
    .innerJoin(applications, eq(applications.id, deploymentCounts.applicationId))
    .where(and(of, status && eq(deploymentCounts.status, status)))
  return counted?.total ?? 0
}

/** The same of some environments. */
async function countInEnvironments(
  db: DeployDeps['db'],
  of: SQL | undefined,
  status: DeploymentStatus | undefined,
): Promise<number> {
  const [counted] = await db
    .select({ total: sum(environmentDeploymentCounts.deployments).mapWith(Number) })
    .from(environmentDeploymentCounts)
    .innerJoin(environments, eq(environments.id, environmentDeploymentCounts.environmentId))
    .innerJoin(applications, eq(applications.id, environments.applicationId))
    .where(and(of, status && eq(environmentDeploymentCounts.status, status)))
  return counted?.total ?? 0
}

/**
 * A page of the deployments in reach, newest first (A §1 Keyset, D30). Its cost does not grow with the list: triggers keep
 * `total`.
 */
export async function deploymentsPage(
  deps: Pick<DeployDeps, 'db' | 'appsUrl'>,
  reach: ListReach,
  { status, ...page }: KeysetPage & { status?: DeploymentStatus | undefined },
): Promise<{ items: ShownDeployment[]; total: number }> {
  const { db } = deps
  const ofStatus = status && eq(deployments.status, status)
  const pageOf = async (rows: Promise<Deployment[]>, total: Promise<number>) => ({
    items: (await rows).map((row) => shownDeployment(deps, row)),
    total: await total,
  })
  const ofEnvironments = (of: SQL | undefined) =>
    pageOf(newestOfEnvironments(db, of, ofStatus, page), countInEnvironments(db, of, status))
  switch (reach.kind) {
    case 'nothing':
      return { items: [], total: 0 }
    case 'environment':
      return ofEnvironments(eq(environments.id, reach.environmentId))
    case 'application': {
      const { id } = reach.application
      return pageOf(
        newest(db, and(eq(deployments.applicationId, id), ofStatus), page),
        countDeployments(db, eq(applications.id, id), status),
      )
    }
    case 'organization': {
      const { id } = reach.organization
      const inOrganization = eq(applications.organizationId, id)
      if (reach.slug) return ofEnvironments(and(inOrganization, eq(environments.slug, reach.slug)))
      return pageOf(
        newest(db, and(eq(deployments.organizationId, id), ofStatus), page),
        countDeployments(db, inOrganization, status),
      )
    }
    case 'user': {
      const mine = eq(members.userId, reach.userId)
      const inMine = sql`${applications.organizationId} in (select ${members.organizationId} from ${members} where ${mine})`
      if (reach.slug) return ofEnvironments(and(inMine, eq(environments.slug, reach.slug)))
      return pageOf(newestOfUser(db, reach.userId, ofStatus, page), countDeployments(db, inMine, status))
    }
  }
}
