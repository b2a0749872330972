import { PlatformError } from '../errors.ts'
import { fail } from '../fail.ts'
import type { Sender } from '../sender.ts'
import { repeat } from '../repetition.ts'
import { refuseUnknown } from '../request.ts'
import { readMetadata } from '../sign-in/metadata.ts'
import { sendForm } from '../sign-in/send-form.ts'
import type { Credential } from './credential.ts'
import { type IssuedToken, renewing } from './renewal.ts'
import type { StoredToken, TokenStore } from './token-store.ts'

const operation = 'POST /oauth2/token'

/** What a person's token is answered with. */
export interface UserTokens extends IssuedToken {
  refresh_token?: string | undefined
  id_token?: string | undefined
  scope?: string | undefined
}

/** What a store keeps after an answer. before: of what the answer may leave out. */
export const tokenOf = (
  before: Omit<StoredToken, 'accessToken' | 'expiresAt'>,
  {
    access_token,
    expires_in,
    refresh_token = before.refreshToken,
    id_token = before.idToken,
    scope = before.scope,
  }: UserTokens,
): StoredToken => ({
  ...before,
  accessToken: access_token,
  refreshToken: refresh_token,
  idToken: id_token,
  expiresAt: Date.now() + expires_in * 1_000,
  scope,
})

const signedOut = (message: string): PlatformError =>
  new PlatformError(message, { status: 401, code: 'invalid_grant', operation, attempts: 0 })

/**
 * The person who signed in (see `signInByDevice` and `beginCodeSignIn`). Everybody who shares the store is renewed by one of them.
 *
 * clientId: refuses a sign-in of another client. Calls throw TypeError, before a request, where the store holds the sign-in of
 * another platform or client; and PlatformError, for which `needsSignIn` is true, if nobody is signed in or the sign-in has ended.
 */
export function userToken(options: { store: TokenStore; clientId?: string | undefined }): Credential {
  refuseUnknown('userToken', options, ['store', 'clientId'])
  const { store, clientId } = options
  if (!store?.lock) fail('userToken needs a store')
  return {
    bind(platform) {
      /** What calls go on with: asked for another, they get none that they have. */
      let current: string | undefined

      async function read(): Promise<StoredToken> {
        const stored = await store.read()
        if (!stored) throw signedOut('Nobody is signed in: sign in first')
        if (stored.baseUrl !== platform.baseUrl)
          fail(`The stored sign-in belongs to ${stored.baseUrl}, not to ${platform.baseUrl}`)
        if (clientId && stored.clientId !== clientId)
          fail(`The stored sign-in belongs to the client ${stored.clientId}, not to ${clientId}`)
        return stored
      }

      async function renew(refused: string | undefined): Promise<IssuedToken> {
        const isUsable = ({ accessToken, expiresAt }: StoredToken) =>
          accessToken !== current && accessToken !== refused && expiresAt > Date.now()
        let stored = await read()
        if (!isUsable(stored))
          await store.lock(async () => {
            stored = await read()
            while (!isUsable(stored)) {
              const answer = await refresh(platform, stored)
              if (answer) {
                stored = tokenOf(stored, answer)
                return store.write(stored)
              }
              // Whoever lost a race for the refresh finds the winner's token here (D61).
              const again = await read()
              if (again.refreshToken === stored.refreshToken) {
                await store.write(undefined)
                throw signedOut('The sign-in has ended: sign in again')
              }
              stored = again
            }
          })
        current = stored.accessToken
        return { access_token: current, expires_in: (stored.expiresAt - Date.now()) / 1_000 }
      }

      return renewing((refused) =>
        renew(refused).catch((error: Error) => {
          if (error instanceof PlatformError || error instanceof TypeError) throw error
          // Not an answer that was lost, after which a call is repeated.
          throw new PlatformError(`The token store failed: ${error.message}`, { status: 0, operation, attempts: 0 })
        }),
      )
    },
  }
}

/** Other tokens for the refresh token; undefined if it is good for none any more. */
async function refresh(
  platform: Sender,
  { issuer, clientId, refreshToken }: StoredToken,
): Promise<UserTokens | undefined> {
  if (refreshToken === undefined) return undefined
  const { token_endpoint } = await readMetadata(platform, issuer)
  const form = new URLSearchParams({ grant_type: 'refresh_token', client_id: clientId, refresh_token: refreshToken })
  try {
    // Repeated after a lost answer: had the token been used up, its successor would be nobody's, so there is nothing that the
    // repetition could revoke (D61).
    const answer = await sendForm<UserTokens>(platform, token_endpoint, form, repeat)
    if (answer?.access_token) return answer
  } catch (error) {
    if (error instanceof PlatformError && error.status === 400 && error.code === 'invalid_grant') return undefined
    throw error
  }
  throw new PlatformError('The identity provider answered no token', { status: 200, operation, attempts: 1 })
}
