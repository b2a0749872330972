import { type OAuthForm, readClientCredentials } from '@platform/auth/oauth-form'
import { OAuthError, Throttled } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { answerJson } from '../../http/answer-json.ts'
import { addressOf, type Ctx, type Endpoint, userAgentOf } from '../../http/app.ts'
import { readFormOrJson, requireParameter } from '../../http/body.ts'
import { type Client, findClient, presentedClient, readScopes } from '../clients/client.ts'
import { startDevice } from './start-device.ts'

const STARTS_PER_MINUTE = 30

/**
 * The client named in the request; its secret is checked if it sends one (D11). isClientProven: false for a confidential client
 * without a secret. A public one has nothing to prove itself with.
 */
async function readClient(c: Ctx, deps: Deps, form: OAuthForm): Promise<{ client: Client; isClientProven: boolean }> {
  const authorization = c.req.header('authorization')
  if (authorization === undefined) requireParameter(form, 'client_id')
  const credentials = readClientCredentials(authorization, form)
  const client = presentedClient(await findClient(deps, credentials.clientId), credentials)
  return { client, isClientProven: client.kind === 'public' || credentials.secret !== undefined }
}

/** POST /oauth2/device_authorization, form or JSON (B §4, D23), 30 a minute per client and address (D57). */
async function deviceAuthorization(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readFormOrJson(c)
  const { client, isClientProven } = await readClient(c, deps, form)
  c.set('clientId', client.id)
  const address = addressOf(c, deps)
  const [starts = 0] = await deps.limiter.hit([`device:${client.id}:${address}`])
  if (starts > STARTS_PER_MINUTE) throw new Throttled()
  if (!client.grants.includes('urn:ietf:params:oauth:grant-type:device_code'))
    throw new OAuthError(400, 'unauthorized_client', 'The client is not allowed the device flow')
  const scopes = readScopes(client, form.get('scope') ?? '')
  if (!scopes)
    throw new OAuthError(400, 'invalid_scope', 'The scope is missing, unknown or not allowed for this client')
  const userAgent = userAgentOf(c)
  return answerJson(await startDevice(deps, { client, isClientProven, scopes, address, userAgent }))
}

export const deviceAuthorizationEndpoint: Endpoint = {
  path: '/oauth2/device_authorization',
  cors: true,
  POST: deviceAuthorization,
}
