import { scopeCatalogue } from '@platform/auth/scopes'
import { and, eq, gt, isNull } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { recordAudit } from '../audit/audit.ts'
import { clients } from '../clients/table.ts'
import { consents } from '../consents/table.ts'
import { refreshFamilies } from '../refresh/table.ts'
import { endGrants } from '../sessions/sessions.ts'

type ApplicationDeps = Pick<Deps, 'db' | 'now'>

/** A client that the user lets in: by consent, by a refresh family, or both. */
export interface Application {
  clientId: string
  name: string
  /** What it may do at most, in the order of the catalogue. */
  scopes: string[]
  since: Date
  /** When it last fetched tokens on its own; undefined for one that cannot. */
  lastUsedAt: Date | undefined
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b)
const later = (a: Date | undefined, b: Date): Date => (a === undefined || a < b ? b : a)

function order(scopes: Iterable<string>): string[] {
  const held = new Set(scopes)
  return scopeCatalogue.filter((scope) => held.has(scope))
}

/** What is connected to a user's account, the newest first. */
export async function listApplications({ db, now }: ApplicationDeps, userId: string): Promise<Application[]> {
  const client = { clientId: clients.id, name: clients.name }
  const agreed = await db
    .select({ ...client, scopes: consents.scopes, since: consents.createdAt })
    .from(consents)
    .innerJoin(clients, eq(clients.id, consents.clientId))
    .where(eq(consents.userId, userId))
  const families = await db
    .select({
      ...client,
      scope: refreshFamilies.scope,
      since: refreshFamilies.createdAt,
      rotatedAt: refreshFamilies.rotatedAt,
    })
    .from(refreshFamilies)
    .innerJoin(clients, eq(clients.id, refreshFamilies.clientId))
    .where(
      and(eq(refreshFamilies.userId, userId), isNull(refreshFamilies.revokedAt), gt(refreshFamilies.expiresAt, now())),
    )

  const found = new Map<string, Application>()
  for (const { clientId, name, scopes, since } of agreed)
    found.set(clientId, { clientId, name, scopes: order(scopes), since, lastUsedAt: undefined })
  for (const { clientId, name, scope, since, rotatedAt } of families) {
    const before = found.get(clientId)
    found.set(clientId, {
      clientId,
      name,
      scopes: order([...(before?.scopes ?? []), ...scope.split(' ')]),
      since: before ? earlier(before.since, since) : since,
      lastUsedAt: later(before?.lastUsedAt, rotatedAt ?? since),
    })
  }
  return [...found.values()].toSorted((a, b) => b.since.getTime() - a.since.getTime())
}

/**
 * Disconnects a client from a user's account: its consent and all that was granted to it end. Access tokens run out by
 * themselves (B §8). Safe to repeat.
 */
export async function disconnectApplication(
  { db, now }: ApplicationDeps,
  { userId, clientId }: { userId: string; clientId: string },
): Promise<void> {
  const at = now()
  await db.transaction(async (tx) => {
    const withdrawn = await tx
      .delete(consents)
      .where(and(eq(consents.userId, userId), eq(consents.clientId, clientId)))
      .returning({ clientId: consents.clientId })
    const ended = await endGrants(tx, at, { userId, clientId })
    if (withdrawn.length + ended === 0) return
    await recordAudit(tx, at, { actor: `user:${userId}`, action: 'client.disconnected', subject: `client:${clientId}` })
  })
}
