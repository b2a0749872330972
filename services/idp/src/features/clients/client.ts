import { createHash, timingSafeEqual } from 'node:crypto'
import { type ClientCredentials, invalidClient } from '@platform/auth/oauth-form'
import { isScope, type Scope } from '@platform/auth/scopes'
import { eq, getTableColumns, sql } from 'drizzle-orm'
import { isUuid } from '@platform/runtime/is-uuid'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { Deps } from '../../deps.ts'
import { clientSecrets, clients } from './table.ts'

/** A client as the flows see it. Disabled clients are never loaded, so they look unknown to everyone. */
export type Client = typeof clients.$inferSelect

/** The client of a request before authentication; `authenticateClient` and `presentedClient` return it. */
export interface UnprovenClient {
  client: Client
  secretHashes: readonly string[]
}

/** The three grants of B §4. */
export const grantTypes = [
  'authorization_code',
  'refresh_token',
  'urn:ietf:params:oauth:grant-type:device_code',
] as const
export type GrantType = (typeof grantTypes)[number]

/**
 * SHA-256 of the client's live secrets in hex, as JSON: arrays are decoded from columns only. For selects that read a client
 * along with other tables. Columns are spelled out with their tables: drizzle drops the table from a column of a select
 * without joins, and `id` would be the secret's.
 */
export const liveSecretHashes = sql<string[]>`array_to_json(array(
  select encode(${clientSecrets}.secret_hash, 'hex') from ${clientSecrets}
  where ${clientSecrets}.client_id = ${clients}.id
    and (${clientSecrets}.expires_at is null or ${clientSecrets}.expires_at > ${sql.placeholder('now')}::timestamptz)
))`

export const clientColumns = getTableColumns(clients)

const clientById = lazyPrepared((db) =>
  db
    .select({ client: clientColumns, secretHashes: liveSecretHashes })
    .from(clients)
    .where(sql`${eq(clients.id, sql.placeholder('clientId'))} and ${clients.disabledAt} is null`)
    .prepare('client_by_id'),
)

/** The enabled client with this id; undefined if it is disabled, unknown or malformed. */
export async function findClient(
  deps: Pick<Deps, 'db' | 'now'>,
  clientId: string,
): Promise<UnprovenClient | undefined> {
  if (!isUuid(clientId)) return undefined
  const [row] = await clientById(deps.db).execute({ clientId, now: deps.now().toISOString() })
  return row
}

function isLiveSecret({ secretHashes }: UnprovenClient, secret: string): boolean {
  const digest = createHash('sha256').update(secret).digest()
  return secretHashes.some((hash) => timingSafeEqual(Buffer.from(hash, 'hex'), digest))
}

/**
 * The client, once it is authenticated (B §5, D11): a public one by its id and no secret, a confidential one by its secret.
 * Throws invalid_client otherwise, with the same words for an unknown client and a wrong secret.
 */
export function authenticateClient(unproven: UnprovenClient | undefined, credentials: ClientCredentials): Client {
  const { secret, method } = credentials
  if (!unproven) throw invalidClient(method)
  const isProven =
    unproven.client.kind === 'public' ? secret === undefined : secret !== undefined && isLiveSecret(unproven, secret)
  if (!isProven) throw invalidClient(method)
  return unproven.client
}

/** The client of a device authorization: its id suffices; credentials are checked if it sends them (D11). */
export function presentedClient(unproven: UnprovenClient | undefined, credentials: ClientCredentials): Client {
  if (unproven && credentials.secret === undefined) return unproven.client
  return authenticateClient(unproven, credentials)
}

/** The client for a request without credentials, such as an authorization request. */
export const namedClient = (unproven: UnprovenClient | undefined): Client | undefined => unproven?.client

/** True if the client may be granted the scope; offline_access needs the refresh_token grant (D70). */
export function mayHoldScope(client: Client, scope: Scope): boolean {
  if (scope === 'offline_access' && !client.grants.includes('refresh_token')) return false
  return client.scopes === null || client.scopes.includes(scope)
}

/**
 * Scopes of a request, in its order, each once. Returns undefined if there are none, or if one is outside the catalogue or
 * not allowed for the client (D70).
 */
export function readScopes(client: Client, text: string): Scope[] | undefined {
  const names = [...new Set(text.split(' ').filter((name) => name !== ''))]
  const scopes = names.filter((name) => isScope(name) && mayHoldScope(client, name)) as Scope[]
  return names.length > 0 && scopes.length === names.length ? scopes : undefined
}
