import { userToken } from '../credentials/user.ts'
import type { TokenStore } from '../credentials/token-store.ts'
import { fail } from '../fail.ts'
import { Platform } from '../platform.ts'
import { repeat } from '../repetition.ts'
import { refuseUnknown } from '../request.ts'
import type { Reach } from './issuer.ts'
import { readMetadata } from './metadata.ts'

/** What the identity provider says of a person, as far as the scopes of the sign-in allow it (OpenID Connect Core §5.1). */
export interface Claims {
  /** The id of the user. */
  sub: string
  email?: string
  name?: string
  [claim: string]: unknown
}

/** Asks the identity provider of a sign-in who signed in, for which the sign-in needs the scope `openid`. Throws PlatformError. */
export async function userInfo(options: { store: TokenStore } & Omit<Reach, 'baseUrl'>): Promise<Claims> {
  refuseUnknown('userInfo', options, ['store', 'fetch', 'signal'])
  const { store, fetch, signal } = options
  const stored = await store.read()
  if (!stored) fail('userInfo needs a store in which somebody is signed in')
  const platform = new Platform({ baseUrl: stored.baseUrl, credential: userToken({ store }), fetch })
  const { userinfo_endpoint: url } = await readMetadata(platform, stored.issuer, signal)
  const { pathname: path } = new URL(url)
  return platform.send<Claims>({ method: 'GET', path, url, repetition: repeat }, { signal })
}
