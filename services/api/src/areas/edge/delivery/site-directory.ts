import type { Db } from '@platform/runtime/database'
import { withDeadline } from '@platform/runtime/deadline'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Notifications } from '@platform/runtime/notifications'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { eq, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { environments } from '../../tenancy/applications/table.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { hostnames, isEnvironmentOfHostname } from '../../tenancy/applications/hostnames-table.ts'

/** Triggers announce the id of an application whose hostnames, or what they serve, have changed. */
const CHANNEL = 'edge_hostnames'
const LABELS_MAX = 20_000
/** Maximum age of an answer while changes cannot be heard. */
const ASK_AGAIN_MS = 5_000
/** How long a request waits for a newer answer before it uses the known one. */
const PATIENCE_MS = 1_000

/** What a hostname serves. */
export interface Site {
  applicationId: string
  hostnameType: typeof hostnames.$inferSelect.type
  /** The deployment of a DEPLOYMENT hostname, or the current one of any other hostname's environment; null: none yet. */
  deployment: Pick<typeof deployments.$inferSelect, 'id' | 'status' | 'retiredAt'> | null
}

/** Looks up which deployment answers at a label below APPS_URL. */
export interface SiteDirectory {
  /** Resolves to undefined if nothing has the label. Throws the database's error if nothing is known of the label. */
  find(label: string): Promise<Site | undefined>
}

const siteByLabel = lazyPrepared((db) =>
  db
    .select({
      applicationId: hostnames.applicationId,
      hostnameType: hostnames.type,
      deployment: { id: deployments.id, status: deployments.status, retiredAt: deployments.retiredAt },
    })
    .from(hostnames)
    .leftJoin(environments, isEnvironmentOfHostname)
    .leftJoin(
      deployments,
      eq(deployments.id, sql`coalesce(${hostnames.deploymentId}, ${environments.currentDeploymentId})`),
    )
    .where(eq(hostnames.label, sql.placeholder('label')))
    .prepare('site_by_label'),
)

interface Known {
  site: Site | undefined
  /** By `monotonicMs`, before the look-up. */
  askedAt: number
}

/** A look-up in progress. If a change is announced meanwhile, its answer is not cached. */
interface LookUp {
  answer: Promise<Site | undefined>
  changed: Set<string>
  isOutdated: boolean
}

/**
 * Caches what hostnames serve, and forgets it when Postgres announces a change. While the connection for notifications is down,
 * an answer is valid for 5 s; if it cannot be renewed, it stays in use, so that sites survive a database outage.
 */
export function openSiteDirectory({
  db,
  notifications,
  monotonicMs = () => performance.now(),
}: {
  db: Db
  notifications: Notifications
  /** The clock for the age of answers; it never goes back. */
  monotonicMs?: () => number
}): SiteDirectory {
  const labelsOf = new Map<string, Set<string>>()
  const known = new LRUCache<string, Known>({
    ...entriesMax(LABELS_MAX),
    dispose({ site }, label) {
      const labels = site && labelsOf.get(site.applicationId)
      if (labels?.delete(label) && labels.size === 0) labelsOf.delete(site?.applicationId ?? '')
    },
  })
  /** Labels found to be unused. Any application may take one, so every notification clears them. */
  const unknown = new LRUCache<string, Known>({ ...entriesMax(LABELS_MAX) })
  const lookUps = new Set<LookUp>()
  /** Look-ups that further requests may share. */
  const current = new Map<string, LookUp>()
  let isListening = false

  function keep(label: string, site: Site | undefined, askedAt: number): void {
    known.delete(label)
    unknown.delete(label)
    if (!site) {
      unknown.set(label, { site, askedAt })
      return
    }
    known.set(label, { site, askedAt })
    const labels = labelsOf.get(site.applicationId)
    if (labels) labels.add(label)
    else labelsOf.set(site.applicationId, new Set([label]))
  }

  async function ask(label: string, lookUp: Omit<LookUp, 'answer'>): Promise<Site | undefined> {
    const askedAt = monotonicMs()
    const [site] = await siteByLabel(db).execute({ label })
    const isNewsTo = site ? lookUp.changed.has(site.applicationId) : lookUp.changed.size > 0
    if (!lookUp.isOutdated && !isNewsTo) keep(label, site, askedAt)
    return site
  }

  function lookUpOf(label: string): LookUp {
    const before = current.get(label)
    if (before) return before
    const begun = { changed: new Set<string>(), isOutdated: false }
    const lookUp: LookUp = Object.assign(begun, { answer: ask(label, begun) })
    lookUps.add(lookUp)
    current.set(label, lookUp)
    const over = () => {
      lookUps.delete(lookUp)
      if (current.get(label) === lookUp) current.delete(label)
    }
    lookUp.answer.then(over, over)
    return lookUp
  }

  /** Returns the known answer unless a newer one arrives soon; then looks up no more for a while. */
  async function renew(label: string, entry: Known): Promise<Site | undefined> {
    try {
      return await withDeadline(PATIENCE_MS, () => new Error('The answer comes late'), lookUpOf(label).answer)
    } catch {
      entry.askedAt = monotonicMs()
      return entry.site
    }
  }

  notifications.listen(CHANNEL, {
    onMessage(applicationId) {
      for (const label of labelsOf.get(applicationId) ?? []) known.delete(label)
      unknown.clear()
      for (const lookUp of lookUps) lookUp.changed.add(applicationId)
      current.clear()
    },
    onListening() {
      isListening = true
      known.clear()
      unknown.clear()
      for (const lookUp of lookUps) lookUp.isOutdated = true
      current.clear()
    },
    onLost() {
      isListening = false
    },
  })

  return {
    async find(label) {
      const entry = known.get(label) ?? unknown.get(label)
      if (!entry) return lookUpOf(label).answer
      if (isListening || monotonicMs() - entry.askedAt < ASK_AGAIN_MS) return entry.site
      return renew(label, entry)
    },
  }
}
