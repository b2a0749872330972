import { fail } from '../fail.ts'
import { repeat } from '../repetition.ts'
import type { Credential } from './credential.ts'
import { type IssuedToken, renewing } from './renewal.ts'

/**
 * An API key of an application. It is exchanged for a token of 300 s when a call needs one (A §4, D4).
 *
 * allowInBrowser: whoever opens the page can read the secret. Throws TypeError in a browser without it, and for a secret that is
 * none.
 */
export function apiKey({
  id,
  secret,
  allowInBrowser = false,
}: {
  id: string
  secret: string
  allowInBrowser?: boolean
}): Credential {
  if (!id || !secret?.startsWith('svc_secret_')) fail('apiKey needs an id and a secret')
  if ((globalThis as { document?: unknown }).document && !allowInBrowser) fail('apiKey needs allowInBrowser here')
  return {
    bind: (platform) =>
      renewing(() =>
        platform.send<IssuedToken>({
          method: 'POST',
          path: '/oauth2/token',
          body: new URLSearchParams({ grant_type: 'client_credentials', client_id: id, client_secret: secret }),
          repetition: repeat,
          isPublic: true,
        }),
      ),
  }
}
