import { scopeCatalogue } from '@platform/auth/scopes'
import { recordAudit } from '@platform/service/audit'
import { and, asc, eq, isNull, lte, type Placeholder, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { endGrants } from '../access/end-access.ts'
import { clients } from '../clients/table.ts'
import { consents } from '../consents/table.ts'
import { revokeFamilies } from '../refresh/families.ts'
import { refreshFamilies } from '../refresh/table.ts'

type ApplicationDeps = Pick<Deps, 'db' | 'now'>

/** Connections of a client beyond this many are not listed; ending the client's access ends them all. */
const CONNECTIONS_LISTED_MAX = 20
/** So many browsers and networks of a client are read, of which some look alike. */
const CONNECTIONS_READ_MAX = 200

/** Machines or browsers in which a client stays connected: refresh families that differ in nothing that a person sees. */
export interface Connection {
  /** One of the families, by which a form names them all. */
  familyId: string
  /** What asked for it, in words. */
  machine: string
  /** User-Agent of the browser or device that made the request, and its network; null in rows older than the columns. */
  userAgent: string | null
  address: string | null
  /** The number of families. */
  count: number
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
  /** The number of refresh families, listed or not. */
  connectionCount: number
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b)

function order(scopes: Iterable<string>): string[] {
  const held = new Set(scopes)
  return scopeCatalogue.filter((scope) => held.has(scope))
}

/** When a family was last used. */
export const usedAt = sql<Date>`coalesce(${refreshFamilies.rotatedAt}, ${refreshFamilies.createdAt})`

/** Which refresh families of a user are live at a time. */
export const isLiveFamilyOf = (userId: string | Placeholder, time: Date | Placeholder) =>
  and(
    eq(refreshFamilies.userId, userId),
    isNull(refreshFamilies.revokedAt),
    sql`${refreshFamilies.expiresAt} > ${time instanceof Date ? time.toISOString() : time}::timestamptz`,
  )

const machineOf = (userAgent: string | null): string => (userAgent === null ? 'A machine' : describeBrowser(userAgent))
/** The same for connections that nobody can tell apart, such as the tabs of one browser. */
const looks = ({ userAgent, address }: Pick<Connection, 'userAgent' | 'address'>): string =>
  JSON.stringify([machineOf(userAgent), address])

/** Makes one connection of those that look alike to a person, with the id of the first; the others only add to it. */
function mergeAlike(connections: readonly Omit<Connection, 'machine'>[]): Connection[] {
  const merged = new Map<string, Connection>()
  for (const connection of connections) {
    const before = merged.get(looks(connection))
    merged.set(
      looks(connection),
      before
        ? { ...before, count: before.count + connection.count, since: earlier(before.since, connection.since) }
        : { ...connection, machine: machineOf(connection.userAgent) },
    )
  }
  return [...merged.values()]
}

/** The live connections of a user by client, at most the CONNECTIONS_LISTED_MAX most recently used of each. */
async function listConnections({ db, now }: ApplicationDeps, userId: string): Promise<Map<string, Connection[]>> {
  const { id, clientId, userAgent, address, createdAt } = refreshFamilies
  const ranked = db
    .select({
      clientId,
      userAgent,
      address,
      familyId: sql<string>`(array_agg(${id} order by ${usedAt} desc, ${id} desc))[1]`.as('family_id'),
      count: sql<number>`count(*)::int`.as('count'),
      since: sql<Date>`min(${createdAt})`.mapWith(createdAt).as('since'),
      lastUsedAt: sql<Date>`max(${usedAt})`.mapWith(createdAt).as('last_used_at'),
      place:
        sql<number>`row_number() over (partition by ${clientId} order by max(${usedAt}) desc, max(${id}::text) desc)`.as(
          'place',
        ),
    })
    .from(refreshFamilies)
    .where(isLiveFamilyOf(userId, now()))
    .groupBy(clientId, userAgent, address)
    .as('ranked')
  const rows = await db.select().from(ranked).where(lte(ranked.place, CONNECTIONS_READ_MAX)).orderBy(asc(ranked.place))
  const byClient = Map.groupBy(rows, (row) => row.clientId)
  return new Map([...byClient].map(([id, ofClient]) => [id, mergeAlike(ofClient).slice(0, CONNECTIONS_LISTED_MAX)]))
}

/** The applications connected to a user's account, those used or connected last first. */
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
  const newest = ({ lastUsedAt, since }: Application) => (lastUsedAt ?? since).getTime()
  return [...applicationsById.values()].toSorted((a, b) => newest(b) - newest(a))
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

/**
 * Ends a connection of a user and every other of the same client that looks like it, since the list shows them in one row.
 * Safe to repeat; does nothing if the user has no such connection.
 */
export async function cutOff(
  { db, now }: ApplicationDeps,
  { userId, familyId }: { userId: string; familyId: string },
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const { id, clientId, userAgent, address } = refreshFamilies
    const families = await tx
      .select({ id, clientId, userAgent, address })
      .from(refreshFamilies)
      .where(isLiveFamilyOf(userId, time))
    const chosen = families.find((family) => family.id === familyId)
    if (!chosen) return
    // Those of other clients are left alone below.
    const alike = families.filter((family) => looks(family) === looks(chosen))
    await revokeFamilies(
      tx,
      time,
      { familyIds: alike.map((family) => family.id), clientId: chosen.clientId },
      `user:${userId}`,
      'cut off by its user',
    )
  })
}
