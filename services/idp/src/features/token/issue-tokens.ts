import { createHash, randomUUID } from 'node:crypto'
import { OAuthError } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { type Admissible, redemptionRefusal } from '../accounts/admission.ts'
import { acrOf } from '../accounts/authentication-level.ts'
import type { users } from '../accounts/table.ts'
import { type Client, mayHoldScope } from '../clients/client.ts'
import { type RefreshTokenId, writeRefreshToken } from '../refresh/refresh-token.ts'
import type { Scope } from '@platform/auth/scopes'

/** Lifetime of access and ID tokens (B §2). */
const TOKEN_SECONDS = 300
/** Lifetime of each refresh token of a grant (B §2). */
export const REFRESH_MS = 30 * 86_400_000

/** The granted scopes, the user, and how they were signed in. `scope` is the granted list as text. */
export interface Grant {
  userId: string
  scope: string
  authTime: Date
  amr: string
  sid: string
  /** Invitations that the user has taken, of the account's row. */
  joined: (typeof users.$inferSelect)['joined']
}

/** The invitations that tokens still tell of (D112), each beside the API that made it: no API speaks for another. */
const toldOf = (joined: Grant['joined'], time: Date): string[] =>
  (joined ?? []).filter(({ until }) => new Date(until) > time).map(({ id, issuer }) => `${issuer}#${id}`)

/** The body of a successful answer (B §2). */
export interface TokenResponse {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  scope: string
  refresh_token?: string
  id_token?: string
}

/** The error for an invalid code, device code or refresh token, without the reason. */
export const invalidGrant = (description: string): OAuthError => new OAuthError(400, 'invalid_grant', description)

/** Throws `invalid_request` carrying access_denied if the account may not be redeemed for (B §3, D60). */
export function requireRedeemable(
  client: Client,
  user: Admissible,
  amr: string,
  withdrawnProduct: string | null,
): void {
  const refusal = redemptionRefusal(client, user, amr, withdrawnProduct)
  if (refusal !== undefined) throw new OAuthError(400, 'invalid_request', `access_denied: ${refusal}`)
}

const hasScope = (scope: string, wanted: Scope): boolean => scope.split(' ').includes(wanted)

/**
 * Signs the tokens of one answer: an access token always, an ID token with `openid`, a refresh token for `refresh` (B §2).
 * Omits scopes that the operator has withdrawn from the client since the grant. Stores nothing.
 *
 * nonce: of the authorization request; a refreshed ID token has none.
 */
export function issueTokens(
  {
    issuer,
    audiences,
    keySet,
    refreshKeys,
    now,
  }: Pick<Deps, 'issuer' | 'audiences' | 'keySet' | 'refreshKeys' | 'now'>,
  client: Client,
  grant: Grant,
  { nonce, refresh }: { nonce?: string | null; refresh?: RefreshTokenId | undefined },
): TokenResponse {
  const time = now()
  const iat = Math.floor(time.getTime() / 1_000)
  const exp = iat + TOKEN_SECONDS
  const amr = grant.amr.split(' ')
  const acr = acrOf(grant.amr)
  const authTime = Math.floor(grant.authTime.getTime() / 1_000)
  const scope = grant.scope
    .split(' ')
    .filter((name) => mayHoldScope(client, name as Scope))
    .join(' ')
  const joined = toldOf(grant.joined, time)
  const accessToken = keySet.sign('at+jwt', {
    iss: issuer,
    sub: grant.userId,
    aud: audiences,
    client_id: client.id,
    scope,
    jti: randomUUID(),
    iat,
    exp,
    auth_time: authTime,
    acr,
    amr,
    sid: grant.sid,
    ...(joined.length > 0 && { joined }),
  })
  const response: TokenResponse = { access_token: accessToken, token_type: 'Bearer', expires_in: TOKEN_SECONDS, scope }
  if (refresh) response.refresh_token = writeRefreshToken(refreshKeys, refresh)
  if (hasScope(scope, 'openid')) {
    response.id_token = keySet.sign('JWT', {
      iss: issuer,
      sub: grant.userId,
      aud: client.id,
      iat,
      exp,
      auth_time: authTime,
      ...(typeof nonce === 'string' ? { nonce } : {}),
      at_hash: createHash('sha256').update(accessToken).digest().subarray(0, 16).toString('base64url'),
      acr,
      amr,
      sid: grant.sid,
    })
  }
  return response
}
