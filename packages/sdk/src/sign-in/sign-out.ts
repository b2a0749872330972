import type { TokenStore } from '../credentials/token-store.ts'
import { repeat } from '../repetition.ts'
import { refuseUnknown } from '../request.ts'
import { anonymous, type Reach } from './issuer.ts'
import { readMetadata } from './metadata.ts'
import { revocationForm } from './revocation-form.ts'
import { sendForm } from './send-form.ts'

/**
 * Revokes the sign-in of a store and empties it; without one, does nothing. Access tokens that processes hold end by themselves,
 * within 300 s.
 *
 * Throws PlatformError if the identity provider was not reached: the store is empty even so. Throws the signal's reason.
 */
export async function signOut(options: { store: TokenStore } & Omit<Reach, 'baseUrl'>): Promise<void> {
  refuseUnknown('signOut', options, ['store', 'fetch', 'signal'])
  const { store, fetch, signal } = options
  await store.lock(async () => {
    const stored = await store.read()
    if (!stored) return
    const { baseUrl, issuer, clientId, refreshToken } = stored
    try {
      if (refreshToken === undefined) return
      const platform = anonymous({ baseUrl, fetch })
      const { revocation_endpoint } = await readMetadata(platform, issuer, signal)
      const form = revocationForm(clientId, refreshToken)
      // The answer has no body.
      await sendForm(platform, revocation_endpoint, form, repeat, signal, () => Promise.resolve())
    } finally {
      await store.write(undefined)
    }
  })
}
