import { scopeCatalogue } from '@platform/auth/scopes'
import { recordAudit } from '@platform/service/audit'
import { and, asc, eq, gt, isNull, lte, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { endGrants } from '../access/end-access.ts'
import { clients } from '../clients/table.ts'
import { consents } from '../consents/table.ts'
import { refreshFamilies } from '../refresh/table.ts'

type ApplicationDeps = Pick<Deps, 'db' | 'now'>

/** Connections of a client beyond this many are not listed; ending the client's access ends them all. */
const CONNECTIONS_LISTED_MAX = 20

/** One machine or browser in which a client stays connected: a refresh family. */
export interface Connection {
  familyId: string
  /** User-Agent of the browser or device that made the request, and its network; null in rows older than the columns. */
  userAgent: string | null
  address: string | null
  since: Date
  lastUsedAt: Date
}

/** A client with access to the account: by consent, by refresh families, or both. */
export interface Application {
  clientId: string
  name: string
  /** Its scopes at most, in the order of the catalogue. */
  scopes: string[]
  since: Date
  /** When it last fetched tokens on its own; undefined if it cannot. */
  lastUsedAt: Date | undefined
  /** The most recently used, newest first. */
  connections: Connection[]
  /** The number of connections, listed or not. */
  connectionCount: number
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b)

function order(scopes: Iterable<string>): string[] {
  const held = new Set(scopes)
  return scopeCatalogue.filter((scope) => held.has(scope))
}

const usedAt = sql`coalesce(${refreshFamilies.rotatedAt}, ${refreshFamilies.createdAt})`

const isLiveFamilyOf = (userId: string, time: Date) =>
  and(eq(refreshFamilies.userId, userId), isNull(refreshFamilies.revokedAt), gt(refreshFamilies.expiresAt, time))

/** The live families of a user by client, at most the CONNECTIONS_LISTED_MAX most recently used of each. */
async function listConnections({ db, now }: ApplicationDeps, userId: string): Promise<Map<string, Connection[]>> {
  const ranked = db
    .select({
      clientId: refreshFamilies.clientId,
      familyId: refreshFamilies.id,
      userAgent: refreshFamilies.userAgent,
      address: refreshFamilies.address,
      since: refreshFamilies.createdAt,
      lastUsedAt: usedAt.mapWith(refreshFamilies.createdAt).as('last_used_at'),
      place: sql<number>`row_number() over (
        partition by ${refreshFamilies.clientId} order by ${usedAt} desc, ${refreshFamilies.id} desc)`.as('place'),
    })
    .from(refreshFamilies)
    .where(isLiveFamilyOf(userId, now()))
    .as('ranked')
  const rows = await db
    .select()
    .from(ranked)
    .where(lte(ranked.place, CONNECTIONS_LISTED_MAX))
    .orderBy(asc(ranked.place))
  return Map.groupBy(rows, ({ clientId }) => clientId)
}

/** The applications connected to a user's account, newest first. */
export async function listApplications(deps: ApplicationDeps, userId: string): Promise<Application[]> {
  const { db, now } = deps
  const client = { clientId: clients.id, name: clients.name }
  const agreed = await db
    .select({ ...client, scopes: consents.scopes, since: consents.createdAt })
    .from(consents)
    .innerJoin(clients, eq(clients.id, consents.clientId))
    .where(eq(consents.userId, userId))
  const connected = await db
    .select({
      ...client,
      scope: sql<string>`string_agg(distinct ${refreshFamilies.scope}, ' ')`,
      since: sql<Date>`min(${refreshFamilies.createdAt})`.mapWith(refreshFamilies.createdAt),
      lastUsedAt: sql<Date>`max(${usedAt})`.mapWith(refreshFamilies.createdAt),
      connectionCount: sql<number>`count(*)::int`,
    })
    .from(refreshFamilies)
    .innerJoin(clients, eq(clients.id, refreshFamilies.clientId))
    .where(isLiveFamilyOf(userId, now()))
    .groupBy(clients.id)
  const connections = await listConnections(deps, userId)

  const applicationsById = new Map<string, Application>()
  for (const { scopes, ...consent } of agreed)
    applicationsById.set(consent.clientId, {
      ...consent,
      scopes: order(scopes),
      lastUsedAt: undefined,
      connections: [],
      connectionCount: 0,
    })
  for (const { scope, ...families } of connected) {
    const before = applicationsById.get(families.clientId)
    applicationsById.set(families.clientId, {
      ...families,
      scopes: order([...(before?.scopes ?? []), ...scope.split(' ')]),
      since: before ? earlier(before.since, families.since) : families.since,
      connections: connections.get(families.clientId) ?? [],
    })
  }
  return [...applicationsById.values()].toSorted((a, b) => b.since.getTime() - a.since.getTime())
}

/**
 * Disconnects a client from a user's account: its consent and grants end. Access tokens expire on their own (B §8). Safe to
 * repeat.
 */
export async function disconnectApplication(
  { db, now }: ApplicationDeps,
  { userId, clientId }: { userId: string; clientId: string },
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const withdrawn = await tx
      .delete(consents)
      .where(and(eq(consents.userId, userId), eq(consents.clientId, clientId)))
      .returning({ clientId: consents.clientId })
    const ended = await endGrants(tx, time, { userId, clientId })
    if (withdrawn.length + ended === 0) return
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'client.disconnected',
      subject: `client:${clientId}`,
    })
  })
}
