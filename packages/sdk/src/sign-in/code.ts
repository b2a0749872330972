import * as oauth from 'oauth4webapi'
import type { TokenStore } from '../credentials/token-store.ts'
import { refuseUnknown } from '../request.ts'
import { checked, reachIssuer, type Reach } from './issuer.ts'

export interface CodeSignInOptions extends Reach {
  clientId: string
  /** One of the client's, where the person comes back to. */
  redirectUri: string
  /** With `offline_access`, the token is renewed; without, the sign-in lasts 300 s. */
  scopes: readonly string[]
  /** How long ago the person may have proven who they are, in whole seconds; the identity provider asks those whose session is older. */
  maxAgeSeconds?: number
}

/** A sign-in that has begun. It is JSON, so that a page can keep it in its session while the person is away. */
export interface CodeSignIn {
  /** Where the person's browser goes. */
  url: string
  baseUrl: string
  issuer: string
  clientId: string
  redirectUri: string
  /** Proves, at the end, that the same program began (RFC 7636). Useless without the code. */
  verifier: string
  state: string
}

/** Begins the sign-in of a person by redirects (authorization code with PKCE). Throws PlatformError, and the signal's reason. */
export async function beginCodeSignIn(options: CodeSignInOptions): Promise<CodeSignIn> {
  const names = ['baseUrl', 'fetch', 'signal', 'clientId', 'redirectUri', 'scopes', 'maxAgeSeconds']
  refuseUnknown('beginCodeSignIn', options, names)
  const { baseUrl, clientId, redirectUri, scopes, maxAgeSeconds } = options
  const { server } = await reachIssuer(options, clientId)
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(server.authorization_endpoint)
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: scopes.join(' '),
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(maxAgeSeconds !== undefined && { max_age: String(maxAgeSeconds) }),
  }).toString()
  return { url: url.href, baseUrl, issuer: server.issuer, clientId, redirectUri, verifier, state }
}

export interface FinishOptions extends Omit<Reach, 'baseUrl'> {
  /** The URL at which the person came back. */
  callbackUrl: string
  store: TokenStore
}

/**
 * Ends a sign-in by redirects, and writes the store.
 *
 * Throws PlatformError: with the code `access_denied` if the person refuses; and, before anything is sent, if the person came back
 * from another sign-in (`state`) or another identity provider (`iss`, RFC 9207). Throws the signal's reason.
 */
export async function finishCodeSignIn(begun: CodeSignIn, options: FinishOptions): Promise<void> {
  refuseUnknown('finishCodeSignIn', options, ['callbackUrl', 'store', 'fetch', 'signal'])
  const { callbackUrl, store, ...reach } = options
  const { baseUrl, clientId, redirectUri, verifier, state } = begun
  const issuer = await reachIssuer({ ...reach, baseUrl }, clientId, begun.issuer)
  const { server, client } = issuer
  const tokens = await checked('POST /oauth2/token', async () => {
    const parameters = oauth.validateAuthResponse(server, client, new URL(callbackUrl), state)
    const answer = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.None(),
      parameters,
      redirectUri,
      verifier,
      issuer.options(),
    )
    return oauth.processAuthorizationCodeResponse(server, client, answer)
  })
  await issuer.keep(store, tokens)
}
