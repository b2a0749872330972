import { z } from '@hono/zod-openapi'
import { parseOAuthForm, readClientCredentials } from '@platform/auth/oauth-form'
import { OAuthError } from '@platform/errors/api-error'
import { mediaType } from '@platform/service/read-body'
import { shown } from '../../../http/fields.ts'
import { openEndpoint } from '../deps.ts'
import { OAuthErrorBody } from '../../../http/error-schemas.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { readText } from '../../../http/read-body.ts'
import { exchangeApiKey } from './exchange-api-key.ts'

const KeyToken = z
  .object({
    access_token: shown('eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2lnbmF0dXJl'),
    token_type: z.literal('Bearer'),
    expires_in: z.number().int().openapi({ example: 300 }),
    scope: shown('network:env_vars:read'),
  })
  .openapi('KeyToken')
const TokenRequest = z
  .object({
    grant_type: z.literal('client_credentials'),
    client_id: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10').openapi({
      description: 'The id of the API key, unless sent with HTTP Basic.',
    }),
    client_secret: shown(`svc_secret_${'A'.repeat(43)}`).openapi({
      description: 'The secret of the API key, unless sent with HTTP Basic.',
    }),
    scope: shown('network:env_vars:read').openapi({
      description: 'A subset of the key’s scopes, separated by spaces. All of them by default.',
    }),
  })
  .partial()
  .required({ grant_type: true })

const failure = (description: string) => ({ description, content: { 'application/json': { schema: OAuthErrorBody } } })

export const tokenEndpoints = [
  openEndpoint({
    operation: 'exchangeApiKey',
    on: 'POST /oauth2/token',
    tag: 'Tokens',
    summary: 'Exchange an API key for a token',
    description:
      'OAuth 2.0 client credentials grant (RFC 6749 §4.4). The access token is valid for 300 seconds; there is no refresh token.',
    request: { body: { required: true, content: { 'application/x-www-form-urlencoded': { schema: TokenRequest } } } },
    responses: {
      200: { description: 'The access token', content: { 'application/json': { schema: KeyToken } } },
      400: failure('The request is malformed, or asks for an unsupported grant or scope'),
      401: failure('Unknown key or wrong secret (invalid_client); deleted or expired key (invalid_token)'),
    },
    fails: [413, 503],
    async run(exchange) {
      await throttleAddress(exchange)
      const { incoming, deps } = exchange
      const body = await readText(incoming)
      // Only a form is accepted (A §1, D23).
      if (mediaType(incoming) !== 'application/x-www-form-urlencoded')
        throw new OAuthError(400, 'invalid_request', 'Expected Content-Type: application/x-www-form-urlencoded')
      const form = parseOAuthForm(body)
      const grant = form.get('grant_type')
      if (grant === undefined) throw new OAuthError(400, 'invalid_request', 'grant_type is missing')
      if (grant !== 'client_credentials')
        throw new OAuthError(
          400,
          'unsupported_grant_type',
          'This endpoint exchanges API keys: grant_type must be client_credentials',
        )
      const credentials = readClientCredentials(incoming.headers.authorization, form)
      const token = await exchangeApiKey(deps, credentials, form.get('scope'))
      const headers = {
        'content-type': 'application/json; charset=UTF-8',
        'cache-control': 'no-store',
        pragma: 'no-cache',
      }
      return { status: 200, headers, body: JSON.stringify(token) }
    },
  }),
]
