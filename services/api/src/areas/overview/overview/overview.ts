import { and, asc, desc, eq, gte, inArray, lt, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { z } from 'zod'
import type { OverviewDeps } from '../deps.ts'
import { type CursorOf, readCursor, writeCursor } from '../../../http/pages.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import { siteUrlOf } from '../../tenancy/applications/hostname-url.ts'
import { applications, environments, type EnvironmentSlug } from '../../tenancy/applications/table.ts'
import { deployments, type DeploymentStatus } from '../../deploy/deployments/table.ts'
import type { Organization } from '../../tenancy/organizations/reach.ts'
import { hourOf } from '../../observe/request-logs/hours.ts'
import { requestSummaries } from '../../observe/request-logs/table.ts'

const HOUR_MS = 3_600_000
const HOURS = 24

/** A deployment as an overview shows it. */
interface DeploymentState {
  deploymentId: string
  status: DeploymentStatus
  createdAt: Date
}

interface ApplicationOverview {
  applicationId: string
  name: string
  slug: string
  /** Where production is opened: the hostname that was chosen, else the current deployment's own. */
  url: string | null
  /** What production serves. */
  current: DeploymentState | null
  /** The newest deployment of any environment. */
  lastDeployment: (DeploymentState & { environment: EnvironmentSlug }) | null
  hours: Hour[]
}

/** The requests that came within an hour of UTC, and those of them that were answered with 5xx. */
interface Hour {
  start: Date
  requests: number
  errors: number
}

const position = z.object({ id: z.string() })
const current = alias(deployments, 'current')

/** Applications with what they serve, newest first: each join takes one row by its index. */
function applicationsWithState({ db }: Pick<OverviewDeps, 'db'>, organizationId: string, beforeId: string | undefined) {
  const state = { deploymentId: deployments.id, status: deployments.status, createdAt: deployments.createdAt }
  const last = db
    .select({ ...state, environmentId: deployments.environmentId })
    .from(deployments)
    .where(eq(deployments.applicationId, applications.id))
    .orderBy(desc(deployments.id))
    .limit(1)
    .as('last')
  const ofLast = alias(environments, 'of_last')
  return (
    db
      .select({
        applicationId: applications.id,
        name: applications.name,
        slug: applications.slug,
        label: hostnames.label,
        currentLabel: current.label,
        current: { deploymentId: current.id, status: current.status, createdAt: current.createdAt },
        last: {
          deploymentId: last.deploymentId,
          status: last.status,
          createdAt: last.createdAt,
        },
        lastEnvironment: ofLast.slug,
      })
      .from(applications)
      .innerJoin(
        environments,
        and(eq(environments.applicationId, applications.id), eq(environments.slug, 'production')),
      )
      // A literal, since Postgres matches a partial index by the text of its condition.
      .leftJoin(hostnames, and(eq(hostnames.applicationId, applications.id), sql`${hostnames.type} = 'APP'`))
      .leftJoin(current, eq(current.id, environments.currentDeploymentId))
      .leftJoinLateral(last, sql`true`)
      .leftJoin(ofLast, eq(ofLast.id, last.environmentId))
      .where(
        and(
          eq(applications.organizationId, organizationId),
          beforeId === undefined ? undefined : lt(applications.id, beforeId),
        ),
      )
      .orderBy(desc(applications.id))
  )
}

/** The hours of each application that had requests, from the sums by status. */
async function hoursOf(
  { db }: Pick<OverviewDeps, 'db'>,
  applicationIds: readonly string[],
  from: Date,
): Promise<Map<string, Hour[]>> {
  const requests = sql`sum(${requestSummaries.requests})`
  const rows = await db
    .select({
      applicationId: requestSummaries.applicationId,
      start: requestSummaries.at,
      requests: requests.mapWith(Number),
      errors: sql`coalesce(${requests} filter (where ${requestSummaries.value} like '5__'), 0)`.mapWith(Number),
    })
    .from(requestSummaries)
    .where(
      and(
        inArray(requestSummaries.applicationId, [...applicationIds]),
        eq(requestSummaries.minutes, 60),
        eq(requestSummaries.dimension, 'status'),
        gte(requestSummaries.at, from),
      ),
    )
    .groupBy(requestSummaries.applicationId, requestSummaries.at)
    .orderBy(asc(requestSummaries.applicationId), asc(requestSummaries.at))
  return Map.groupBy(rows, ({ applicationId }) => applicationId)
}

/**
 * A page of an organization's applications, newest first, each with what it serves and its requests in each of the last 24 hours,
 * the present one included. Two statements, whatever the number of applications. Throws BadRequest for another list's cursor.
 */
export async function getOverview(
  deps: Pick<OverviewDeps, 'db' | 'now' | 'sealer' | 'appsUrl'>,
  organization: Organization,
  { cursor, limit }: { cursor?: string | undefined; limit: number },
): Promise<{ items: ApplicationOverview[]; total: number; nextCursor: string | null }> {
  const of: CursorOf = { operation: 'getOverview', ownerId: organization.id, filters: {} }
  const before = cursor === undefined ? undefined : readCursor(deps.sealer, of, position, cursor)
  const found = await applicationsWithState(deps, organization.id, before?.id).limit(limit + 1)
  const rows = found.slice(0, limit)
  const from = new Date(hourOf(deps.now()).getTime() - (HOURS - 1) * HOUR_MS)
  const counted = await hoursOf(
    deps,
    rows.map(({ applicationId }) => applicationId),
    from,
  )
  const starts = Array.from({ length: HOURS }, (_, n) => new Date(from.getTime() + n * HOUR_MS))
  const items = rows.map(({ label, currentLabel, last, lastEnvironment, ...row }) => {
    const shownLabel = label ?? currentLabel
    const byStart = new Map(counted.get(row.applicationId)?.map((hour) => [hour.start.getTime(), hour]))
    return {
      ...row,
      url: shownLabel === null ? null : siteUrlOf(deps, shownLabel),
      lastDeployment: last && lastEnvironment && { ...last, environment: lastEnvironment },
      hours: starts.map((start) => byStart.get(start.getTime()) ?? { start, requests: 0, errors: 0 }),
    }
  })
  const end = items.at(-1)
  return {
    items,
    total: organization.applicationCount,
    nextCursor: found.length > limit && end ? writeCursor(deps.sealer, of, { id: end.applicationId }) : null,
  }
}
