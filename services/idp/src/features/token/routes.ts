import { readClientCredentials } from '@platform/auth/oauth-form'
import { OAuthError } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import type { Deps } from '../../deps.ts'
import { answerJson } from '../../http/answer-json.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm, requireParameter } from '../../http/body.ts'
import { authenticateClient, type GrantType } from '../clients/client.ts'
import { redeemAuthorizationCode } from './authorization-code.ts'
import { redeemDeviceCode } from './device-code.ts'
import type { RedeemGrant } from './grant-request.ts'
import { redeemRefreshToken } from './refresh-token.ts'

const grants: Record<GrantType, RedeemGrant> = {
  authorization_code: redeemAuthorizationCode,
  refresh_token: redeemRefreshToken,
  'urn:ietf:params:oauth:grant-type:device_code': redeemDeviceCode,
}
const isGrantType = (name: string): name is GrantType => Object.hasOwn(grants, name)

/** No client has this id, and Postgres accepts it as a UUID. */
const NIL_UUID = '00000000-0000-0000-0000-000000000000'

/** POST /oauth2/token (B §4). Order: encoding and duplicates, grant type, client, the client's grants, the rest (D72). */
async function token(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const grantType = requireParameter(form, 'grant_type')
  if (!isGrantType(grantType))
    throw new OAuthError(400, 'unsupported_grant_type', 'This grant type is not answered here')
  const credentials = readClientCredentials(c.req.header('authorization'), form)
  const answer = await grants[grantType]({
    deps,
    form,
    clientId: isUuid(credentials.clientId) ? credentials.clientId : NIL_UUID,
    admit(unproven) {
      const client = authenticateClient(unproven, credentials)
      c.set('clientId', client.id)
      if (!client.grants.includes(grantType))
        throw new OAuthError(400, 'unauthorized_client', 'The client is not allowed this grant type')
      return client
    },
  })
  return answerJson(answer)
}

export const tokenEndpoint: Endpoint = { path: '/oauth2/token', cors: true, POST: token }
