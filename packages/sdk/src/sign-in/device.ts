import * as oauth from 'oauth4webapi'
import type { TokenStore } from '../credentials/token-store.ts'
import { PlatformError } from '../errors.ts'
import { pause } from '../pause.ts'
import { once } from '../repetition.ts'
import { refuseUnknown } from '../request.ts'
import { checked, reachIssuer, type Reach } from './issuer.ts'

/** The client of the command line, the same at every installation. */
const COMMAND_LINE = '0198c0de-0000-7000-8000-0000000000c1'

const SLOWER_MS = 5_000

/** What a person needs to approve a device. */
export interface DeviceCode {
  /** To compare with the page's, or to type in there. */
  userCode: string
  /** The page that asks for the code. */
  url: string
  /** The same page with the code filled in. */
  completeUrl: string
  expiresInSeconds: number
}

export interface DeviceSignInOptions extends Reach {
  /** Default: the command line's. */
  clientId?: string | undefined
  /** With `offline_access`, the token is renewed; without, the sign-in lasts 300 s. */
  scopes: readonly string[]
  store: TokenStore
  /** Shows the code. The platform is asked for the person's decision once this has returned. */
  onCode(code: DeviceCode): void | Promise<void>
}

/**
 * Signs a person in who approves it in a browser, on this device or another (RFC 8628), and writes the store.
 *
 * Throws PlatformError with the code `access_denied` if the person refuses and `expired_token` if they wait too long, and the
 * signal's reason.
 */
export async function signInByDevice(options: DeviceSignInOptions): Promise<void> {
  const names = ['baseUrl', 'fetch', 'signal', 'clientId', 'scopes', 'store', 'onCode']
  refuseUnknown('signInByDevice', options, names)
  const { clientId = COMMAND_LINE, scopes, store, onCode, signal } = options
  const issuer = await reachIssuer(options, clientId)
  const { server, client } = issuer
  const device = await checked('POST /oauth2/device_authorization', async () => {
    const request = { scope: scopes.join(' ') }
    const answer = await oauth.deviceAuthorizationRequest(server, client, oauth.None(), request, issuer.options())
    return oauth.processDeviceAuthorizationResponse(server, client, answer)
  })
  const { verification_uri: url, expires_in: expiresInSeconds } = device
  const endsAt = Date.now() + expiresInSeconds * 1_000
  let intervalMs = (device.interval ?? 5) * 1_000
  await onCode({
    userCode: device.user_code,
    url,
    completeUrl: device.verification_uri_complete ?? url,
    expiresInSeconds,
  })
  for (;;) {
    try {
      const tokens = await checked('POST /oauth2/token', async () => {
        const { device_code } = device
        const answer = await oauth.deviceCodeGrantRequest(
          server,
          client,
          oauth.None(),
          device_code,
          issuer.options(once),
        )
        return oauth.processDeviceCodeResponse(server, client, answer)
      })
      return await issuer.keep(store, tokens)
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      const isTooFast = error.code === 'slow_down' || error.retryable
      if (!isTooFast && error.code !== 'authorization_pending') throw error
      if (isTooFast) intervalMs += SLOWER_MS
      if (Date.now() + intervalMs >= endsAt)
        throw new PlatformError('Nobody has approved the sign-in in time', {
          status: 400,
          code: 'expired_token',
          operation: error.operation,
          attempts: error.attempts,
        })
    }
    await pause(intervalMs, signal)
  }
}
