import { z } from '@hono/zod-openapi'
import { apiKeyScopes, apiScopes } from '@platform/auth/scopes'
import { platformName } from '@platform/look/name'
import type { CredentialsDeps } from '../deps.ts'
import { openEndpoint } from '../deps.ts'
import { throttleAddress } from '../../../http/exchange.ts'

const CACHED = 'public, max-age=300, stale-while-revalidate=600'
const AnyObject = z.record(z.string(), z.unknown())

const document = (
  operation: string,
  path: `/${string}`,
  summary: string,
  description: string,
  write: (deps: CredentialsDeps) => object,
) =>
  openEndpoint({
    operation,
    on: `GET ${path}`,
    tag: 'Discovery',
    summary,
    description,
    responses: { 200: { description: 'The document', content: { 'application/json': { schema: AnyObject } } } },
    fails: [503],
    async run(exchange) {
      await throttleAddress(exchange)
      // These documents are public; any page may read them.
      const headers = {
        'content-type': 'application/json; charset=UTF-8',
        'cache-control': CACHED,
        'access-control-allow-origin': '*',
      }
      return { status: 200, headers, body: JSON.stringify(write(exchange.deps)) }
    },
  })

export const wellKnownEndpoints = [
  document(
    'getJwks',
    '/.well-known/jwks.json',
    'Get the signing keys',
    'The JSON Web Key Set (RFC 7517) that verifies tokens of API keys. Select a key by its `kid`.',
    ({ keySet }) => keySet.jwks(),
  ),
  document(
    'getAuthorizationServer',
    '/.well-known/oauth-authorization-server',
    'Get authorization server metadata',
    'RFC 8414 metadata of the token endpoint for API keys.',
    ({ publicUrl }) => ({
      issuer: publicUrl,
      token_endpoint: `${publicUrl}/oauth2/token`,
      jwks_uri: `${publicUrl}/.well-known/jwks.json`,
      scopes_supported: apiKeyScopes,
      response_types_supported: [],
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
      service_documentation: `${publicUrl}/docs`,
    }),
  ),
  document(
    'getProtectedResource',
    '/.well-known/oauth-protected-resource',
    'Get protected resource metadata',
    'RFC 9728 metadata of this API: whose tokens it accepts.',
    ({ publicUrl, idpUrl }) => ({
      resource: publicUrl,
      authorization_servers: [idpUrl, publicUrl],
      scopes_supported: apiScopes,
      bearer_methods_supported: ['header'],
      resource_name: `${platformName} API`,
      resource_documentation: `${publicUrl}/docs`,
    }),
  ),
]
