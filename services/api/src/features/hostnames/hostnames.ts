import { Conflict } from '@platform/errors/api-error'
import { isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, desc, eq, ne, sql } from 'drizzle-orm'
import type { Actor, Deps } from '../../deps.ts'
import { recordActivity } from '../activity/record.ts'
import type { Application } from '../applications/reach.ts'
import { refuseReservedLabel, whyReserved } from '../organizations/labels.ts'
import { hostnames } from './table.ts'

interface ShownHostname {
  id: string
  hostname: string
  type: 'DEPLOYMENT' | 'BRANCH' | 'APP'
  /** Whether a deployment answers there. */
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
  /** The production label; null until one was set (D76). */
  label: string | null
}

type Domain = Pick<Deps, 'appsDomain' | 'publicUrl'>

const hostnameOf = ({ appsDomain }: Pick<Domain, 'appsDomain'>, label: string): string => `${label}.${appsDomain}`

/** Every hostname of the application, newest first (A §4, D32). */
export async function listHostnames(
  { db, appsDomain, publicUrl }: Pick<Deps, 'db'> & Domain,
  application: Application,
): Promise<HostnameList> {
  const rows = await db
    .select()
    .from(hostnames)
    .where(eq(hostnames.applicationId, application.id))
    .orderBy(desc(hostnames.id))
  const { protocol } = new URL(publicUrl)
  const items = rows.map(({ id, label, type, deploymentId, branchId, source, createdAt }) => {
    const hostname = hostnameOf({ appsDomain }, label)
    const url = `${protocol}//${hostname}`
    return { id, hostname, type, active: deploymentId !== null, deploymentId, branchId, source, url, createdAt }
  })
  return { items, total: items.length, label: rows.find(({ type }) => type === 'APP')?.label ?? null }
}

/** Whether the application could have the label; its own it can (D76). */
export async function checkAvailability(
  { db }: Pick<Deps, 'db'>,
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
 * Sets the production hostname, before or after any deployment. Of two applications that want one label at once the unique
 * index lets one have it (A §4, D76). Throws BadRequest for a reserved label, Conflict for a taken one.
 */
export async function setHostname(
  { db, now, appsDomain }: Pick<Deps, 'db' | 'now' | 'appsDomain'>,
  by: Actor,
  application: Application,
  label: string,
): Promise<{ label: string; hostname: string; live: boolean }> {
  refuseReservedLabel(label)
  try {
    return await db.transaction(async (tx) => {
      const at = now()
      const rows = await tx
        .insert(hostnames)
        .values({ id: newId(), applicationId: application.id, type: 'APP', label, source: 'user', createdAt: at })
        .onConflictDoUpdate({
          target: hostnames.applicationId,
          targetWhere: sql`${hostnames.type} = 'APP'`,
          set: { label },
        })
        .returning()
      const { id, deploymentId } = one(rows)
      const hostname = hostnameOf({ appsDomain }, label)
      const subject = { type: 'hostname', id, label, hostname }
      await recordActivity(tx, at, { applicationId: application.id, type: 'hostname.set', by, subject })
      return { label, hostname, live: deploymentId !== null }
    })
  } catch (error) {
    if (isUniqueViolation(error, 'hostnames_label')) throw new Conflict(`The hostname ${label} is taken`)
    throw error
  }
}
