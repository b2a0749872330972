import type { TokenStore } from '../credentials/token-store.ts'
import { refuseUnknown } from '../request.ts'
import { anonymous, type Reach } from './issuer.ts'
import { readMetadata } from './metadata.ts'
import { revocationForm } from './revocation-form.ts'

/**
 * Prepares the end of a sign-in whose store ends with its page. Returns a function for `pagehide`, which revokes the sign-in by one
 * request that outlives the page; it returns at once, never throws, and may be called again. It leaves the store as it is.
 *
 * Renewals in the meantime, and one that is under way, do not matter: each generation of a refresh token ends all of them (D62).
 * After another sign-in into the store, prepare again. Where nobody is signed in, or nothing is renewed, the function does nothing.
 *
 * Throws PlatformError if the identity provider was not reached, and the signal's reason.
 */
export async function prepareLeaving(options: { store: TokenStore } & Omit<Reach, 'baseUrl'>): Promise<() => void> {
  refuseUnknown('prepareLeaving', options, ['store', 'fetch', 'signal'])
  const { store, fetch, signal } = options
  const stored = await store.read()
  if (stored?.refreshToken === undefined) return () => {}
  const { baseUrl, issuer, clientId, refreshToken } = stored
  const platform = anonymous({ baseUrl, fetch })
  const { revocation_endpoint } = await readMetadata(platform, issuer, signal)
  return () => {
    // A form without headers of ours is sent to another origin at once: a page that closes would lose what waits for a preflight.
    const body = revocationForm(clientId, refreshToken)
    platform.fetch(revocation_endpoint, { method: 'POST', body, keepalive: true, redirect: 'manual' }).catch(() => {})
  }
}
