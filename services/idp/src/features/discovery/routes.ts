import { scopeCatalogue } from '@platform/auth/scopes'
import type { Deps } from '../../deps.ts'
import { acrValues } from '../accounts/authentication-level.ts'
import type { Endpoint } from '../../http/app.ts'
import { type Document, documentOf } from '../../http/document.ts'
import { grantTypes } from '../clients/client.ts'

/** The header of the discovery document and the JWKS, letter for letter (B §2). */
const CACHE_CONTROL = 'public, max-age=300, stale-while-revalidate=600'

const jsonDocument = (value: object): Document =>
  documentOf(JSON.stringify(value), { type: 'application/json', cacheControl: CACHE_CONTROL })

type DiscoveryDeps = Pick<Deps, 'issuer' | 'accountUrl' | 'takesInvitations'>

/** What a client needs to configure itself (B §2, §9; OpenID Connect Discovery §3, RFC 8414; RP-Initiated Logout §2.1). */
const discoveryDocument = ({ issuer, accountUrl, takesInvitations }: DiscoveryDeps) => ({
  issuer,
  authorization_endpoint: `${issuer}/oauth2/authorize`,
  token_endpoint: `${issuer}/oauth2/token`,
  userinfo_endpoint: `${issuer}/oauth2/userinfo`,
  revocation_endpoint: `${issuer}/oauth2/revoke`,
  device_authorization_endpoint: `${issuer}/oauth2/device_authorization`,
  end_session_endpoint: `${issuer}/oauth2/logout`,
  jwks_uri: `${issuer}/.well-known/jwks.json`,
  scopes_supported: scopeCatalogue,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: grantTypes,
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
  acr_values_supported: acrValues,
  ui_locales_supported: ['en'],
  claims_supported:
    'iss sub aud exp iat auth_time nonce at_hash acr amr sid name given_name family_name preferred_username picture locale zoneinfo updated_at email email_verified'.split(
      ' ',
    ),
  claims_parameter_supported: false,
  request_parameter_supported: false,
  request_uri_parameter_supported: false,
  authorization_response_iss_parameter_supported: true,
  // Where an API that is trusted sends the invited (D112).
  ...(takesInvitations && { invitation_endpoint: `${accountUrl}/join` }),
})

/** Discovery, its RFC 8414 alias and the JWKS, each serialised once. */
export function discoveryEndpoints(deps: DiscoveryDeps & Pick<Deps, 'keySet'>): Endpoint[] {
  const discovery = jsonDocument(discoveryDocument(deps))
  let jwks = jsonDocument(deps.keySet.jwks())
  let version = deps.keySet.version()
  const currentJwks = (): Document => {
    if (deps.keySet.version() !== version) {
      version = deps.keySet.version()
      jwks = jsonDocument(deps.keySet.jwks())
    }
    return jwks
  }
  return [
    { path: '/.well-known/openid-configuration', cors: true, document: () => discovery },
    { path: '/.well-known/oauth-authorization-server', cors: true, document: () => discovery },
    { path: '/.well-known/jwks.json', cors: true, document: currentJwks },
  ]
}
