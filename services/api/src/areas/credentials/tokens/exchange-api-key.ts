import { randomUUID, timingSafeEqual } from 'node:crypto'
import { type ClientCredentials, invalidClient } from '@platform/auth/oauth-form'
import { InvalidToken, OAuthError } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { eq, sql } from 'drizzle-orm'
import type { CredentialsDeps } from '../deps.ts'
import { hashSecret } from '../api-keys/api-keys.ts'
import { keepLastUse } from '../api-keys/last-use.ts'
import { apiKeys } from '../api-keys/table.ts'

/** Lifetime of an access token in seconds (A §5). */
const LIFETIME_SECONDS = 300

/** Stands in for a missing key, so that existing and missing keys take the same path and time (D2). */
const nobody = { id: '00000000-0000-0000-0000-000000000000', secretHash: Buffer.alloc(32) }

const keyById = lazyPrepared((db) =>
  db
    .select({
      id: apiKeys.id,
      applicationId: apiKeys.applicationId,
      deploymentId: apiKeys.deploymentId,
      environmentId: apiKeys.environmentId,
      scopes: apiKeys.scopes,
      secretHash: apiKeys.secretHash,
      expiresAt: apiKeys.expiresAt,
      deletedAt: apiKeys.deletedAt,
      lastUsedAt: apiKeys.lastUsedAt,
    })
    .from(apiKeys)
    .where(eq(apiKeys.id, sql.placeholder('id')))
    .prepare('key_by_id'),
)

interface KeyToken {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  scope: string
}

/** The scopes of the token: the key's, or the requested subset (RFC 6749 §3.3). Throws invalid_scope. */
function narrowed(held: readonly string[], requestedScope: string | undefined): string {
  if (requestedScope === undefined) return held.join(' ')
  const scopes = [...new Set(requestedScope.split(' ').filter((scope) => scope !== ''))]
  const beyond = scopes.find((scope) => !held.includes(scope))
  if (beyond !== undefined || scopes.length === 0)
    throw new OAuthError(400, 'invalid_scope', 'The API key does not hold a requested scope')
  return scopes.join(' ')
}

/**
 * Exchanges a key's id and secret for an access token that acts as the key's application (A §4). The token never outlives the
 * key. Credentials of deployments' Functions are exchanged the same way; their tokens state what they are confined to (D9).
 *
 * Unknown key or wrong secret: invalid_client. With the right secret, a key that was deleted, has expired, or whose application
 * was deleted: invalid_token with the Bearer challenge (D1 to D3). Without the secret nothing can be learned.
 */
export async function exchangeApiKey(
  deps: CredentialsDeps,
  { clientId, secret, method }: ClientCredentials,
  scope: string | undefined,
): Promise<KeyToken> {
  const { db, keySet, now, publicUrl } = deps
  const [key] = await keyById(db).execute({ id: isUuid(clientId) ? clientId : nobody.id })
  const isRight = timingSafeEqual(hashSecret(secret ?? ''), (key ?? nobody).secretHash)
  if (!key || !isRight) throw invalidClient(method)
  if (key.deletedAt)
    throw new InvalidToken(
      key.deploymentId === null ? 'API key deleted' : 'The deployment of this credential has ended',
    )

  const iat = Math.floor(now().getTime() / 1_000)
  const exp = Math.min(
    iat + LIFETIME_SECONDS,
    Math.floor((key.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) / 1_000),
  )
  if (exp <= iat) throw new InvalidToken('API key expired')
  if (key.applicationId === null) throw new InvalidToken('The application of this API key no longer exists')

  const granted = narrowed(key.scopes, scope)
  await keepLastUse(deps, key)
  const claims = {
    iss: publicUrl,
    aud: publicUrl,
    sub: key.applicationId,
    client_id: key.id,
    scope: granted,
    jti: randomUUID(),
    iat,
    exp,
    ...(key.deploymentId !== null && {
      actor: 'function',
      deployment_id: key.deploymentId,
      environment_id: key.environmentId,
    }),
  }
  return { access_token: keySet.sign('at+jwt', claims), token_type: 'Bearer', expires_in: exp - iat, scope: granted }
}
