import * as oauth from 'oauth4webapi'
import { tokenOf } from '../credentials/user.ts'
import type { TokenStore } from '../credentials/token-store.ts'
import { PlatformError } from '../errors.ts'
import { fail } from '../fail.ts'
import { Platform } from '../platform.ts'
import { type Repetition, repeat } from '../repetition.ts'
import { discover, type Metadata, readMetadata } from './metadata.ts'
import type { Fetch } from '../sender.ts'
import { sendForm } from './send-form.ts'

/** How a platform is reached before anybody is signed in. */
export interface Reach {
  /** The origin of the API, such as `http://localhost:4000`. */
  baseUrl: string
  /** Takes the place of the global one. */
  fetch?: Fetch | undefined
  /** Ends waiting at once; the function then throws the signal's reason. */
  signal?: AbortSignal | undefined
}

/** An ID token is checked by the clock of this machine, and nothing is taken from it: a wrong clock prevents no sign-in. */
const TOLERANCE_SECONDS = 10 * 366 * 86_400

/** A Platform for requests that carry no token. */
export const anonymous = ({ baseUrl, fetch }: Pick<Reach, 'baseUrl' | 'fetch'>): Platform =>
  new Platform({
    baseUrl,
    fetch,
    credential: { bind: () => () => fail('Nobody is signed in') },
  })

/** What oauth4webapi needs for the identity provider of a platform. */
export interface Issuer {
  server: Metadata
  client: oauth.Client
  /** Sends as `sendForm` does. */
  options(repetition?: Repetition): {
    [oauth.customFetch]: (url: string, request: { body: URLSearchParams }) => Promise<Response>
    [oauth.allowInsecureRequests]: boolean
  }
  /** Puts the tokens of an answer into a store. */
  keep(store: TokenStore, answer: oauth.TokenEndpointResponse): Promise<void>
}

/** issuer: the one that a sign-in began with; default the platform's. Throws PlatformError. */
export async function reachIssuer(reach: Reach, clientId: string, issuer?: string): Promise<Issuer> {
  const { signal } = reach
  const platform = anonymous(reach)
  const server = issuer ? await readMetadata(platform, issuer, signal) : await discover(platform, signal)
  return {
    server,
    client: { client_id: clientId, [oauth.clockTolerance]: TOLERANCE_SECONDS },
    options: (repetition = repeat) => ({
      // `readMetadata` has refused an issuer without HTTPS of a platform with it.
      [oauth.allowInsecureRequests]: server.issuer.startsWith('http:'),
      [oauth.customFetch]: (url, { body }) =>
        sendForm(platform, url, body, repetition, signal, async (answer) => new Response(await answer.text(), answer)),
    }),
    keep: (store, answer) => {
      const { baseUrl } = platform
      const token = tokenOf({ baseUrl, issuer: server.issuer, clientId }, { expires_in: 0, ...answer })
      return store.lock(() => store.write(token))
    },
  }
}

/** The work's outcome. What oauth4webapi throws holds the answer, and with it tokens: its sentence alone is passed on. */
export async function checked<T>(operation: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof oauth.AuthorizationResponseError)
      throw new PlatformError(error.error_description ?? error.error, {
        // As if the endpoint of a device had answered it.
        status: 400,
        code: error.error,
        operation,
        attempts: 0,
      })
    if (error instanceof oauth.OperationProcessingError || error instanceof oauth.UnsupportedOperationError)
      throw new PlatformError(`The sign-in was answered wrongly: ${error.message}`, {
        status: 0,
        code: error.code,
        operation,
        attempts: 1,
      })
    throw error
  }
}
