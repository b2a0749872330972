import { readClientCredentials } from '@platform/auth/oauth-form'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readFormOrJson, requireParameter } from '../../http/body.ts'
import { authenticateClient, findClient } from '../clients/client.ts'
import { revokeFamily } from '../refresh/families.ts'
import { readRefreshToken } from '../refresh/refresh-token.ts'

/**
 * POST /oauth2/revoke, form or JSON (B §4, RFC 7009). Any token that this service wrote for the client ends its family,
 * including old ones; every other input gets the same 200 (D62).
 */
async function revoke(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readFormOrJson(c)
  const credentials = readClientCredentials(c.req.header('authorization'), form)
  const client = authenticateClient(await findClient(deps, credentials.clientId), credentials)
  c.set('clientId', client.id)
  const token = readRefreshToken(deps.refreshKeys, requireParameter(form, 'token'))
  if (token) {
    const { familyId } = token
    await revokeFamily(deps, { familyId, clientId: client.id }, `client:${client.id}`, 'revoked by the client')
  }
  return c.body(null, 200, { 'cache-control': 'no-store' })
}

export const revokeEndpoint: Endpoint = { path: '/oauth2/revoke', cors: true, POST: revoke }
