import type { TokenStore } from '../credentials/token-store.ts'
import { fail } from '../fail.ts'
import { refuseUnknown } from '../request.ts'
import { anonymous, type Reach } from './issuer.ts'
import { readMetadata } from './metadata.ts'

export interface SignOutUrlOptions extends Omit<Reach, 'baseUrl'> {
  /** In which somebody is signed in: ask for the URL before `signOut` empties it. */
  store: TokenStore
  /** Where the browser goes afterwards: one of the client's post-logout redirect URIs. */
  redirectUri: string
  /** Comes back as `state` in the query of `redirectUri`. */
  state?: string | undefined
}

/**
 * The URL at which the person's browser ends its session at the identity provider (OpenID Connect RP-Initiated Logout 1.0). After a
 * sign-in with the scope `openid` the person is not asked. The URL holds the ID token, which names the person: go there, and do not
 * keep it.
 *
 * Throws PlatformError if the identity provider was not reached, TypeError if nobody is signed in, and the signal's reason.
 */
export async function signOutUrl(options: SignOutUrlOptions): Promise<string> {
  refuseUnknown('signOutUrl', options, ['store', 'redirectUri', 'state', 'fetch', 'signal'])
  const { store, redirectUri, state, fetch, signal } = options
  const stored = await store.read()
  if (!stored) fail('signOutUrl needs a store in which somebody is signed in')
  const { baseUrl, issuer, clientId, idToken } = stored
  const { end_session_endpoint } = await readMetadata(anonymous({ baseUrl, fetch }), issuer, signal)
  const url = new URL(end_session_endpoint)
  const query = { client_id: clientId, post_logout_redirect_uri: redirectUri, state, id_token_hint: idToken }
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value)
  return url.href
}
