import { Conflict } from '@platform/errors/api-error'
import { and, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { siteUrlOf } from '../../tenancy/applications/hostname-url.ts'
import type { Deployment } from '../../deploy/deployments/reach.ts'
import { type DeploymentStatus, deployments } from '../../deploy/deployments/table.ts'
import { STICKY_PARAMETER, type StickyEndpoint } from './sticky-endpoint.ts'
import type { StickyMethod } from './sticky-token.ts'

/**
 * Margin added to how long a deployment is kept, so that signing URLs of equal lifetime updates its row at most once a minute.
 */
const PIN_MARGIN_MS = 60_000
/** States in which Functions run. */
const running: readonly DeploymentStatus[] = ['PROVISIONING', 'ACTIVE']

interface NewStickyUrl {
  key: string
  endpoint: StickyEndpoint
  method?: StickyMethod | undefined
  expiresInSeconds: number
}

/**
 * Keeps a deployment from being retired before an instant (D83). Throws Conflict if it was retired or has failed.
 *
 * deployment: as read without a lock. If it is already kept long enough, nothing is written: retirement skips a deployment until
 * its `pinned_until` has passed, and nothing lowers that.
 */
async function keepUntil(db: EdgeDeps['db'], deployment: Deployment, until: Date): Promise<void> {
  const { id, status, retiredAt, pinnedUntil } = deployment
  if (running.includes(status) && retiredAt === null && pinnedUntil !== null && pinnedUntil >= until) return
  const pin = new Date(until.getTime() + PIN_MARGIN_MS).toISOString()
  // A concurrent retirement holds the row: this statement waits for it, and then changes nothing.
  const kept = await db
    .update(deployments)
    .set({ pinnedUntil: sql`greatest(${deployments.pinnedUntil}, ${pin}::timestamptz)` })
    .where(and(eq(deployments.id, id), isNull(deployments.retiredAt), inArray(deployments.status, running)))
    .returning({ id: deployments.id })
  if (kept.length === 0) throw new Conflict('The deployment was retired or has failed')
}

/**
 * Signs a URL whose requests all go to one process of the Function that answers its path, selected by the key. The deployment is
 * kept as long as the URL is valid.
 *
 * expiresInSeconds: 60–86,400; the expiry is rounded up to a whole second. Throws Conflict if the deployment was retired or has
 * failed. A §4 Sticky sessions, D83, D87.
 */
export async function createStickyUrl(
  deps: Pick<EdgeDeps, 'db' | 'now' | 'appsUrl' | 'stickyTokens'>,
  deployment: Deployment,
  { key, endpoint: { path, query }, method, expiresInSeconds }: NewStickyUrl,
): Promise<{ url: string; expiresAt: Date }> {
  const expiresAt = new Date((Math.ceil(deps.now().getTime() / 1_000) + expiresInSeconds) * 1_000)
  await keepUntil(deps.db, deployment, expiresAt)
  const token = deps.stickyTokens.mint({ deploymentId: deployment.id, key, path, expiresAt, ...(method && { method }) })
  const url = `${siteUrlOf(deps, deployment.label)}${path}${query}${query === '' ? '?' : '&'}${STICKY_PARAMETER}=${token}`
  return { url, expiresAt }
}
