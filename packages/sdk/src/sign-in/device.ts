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

/** A sign-in on a device that has begun. It is JSON, so that another process can finish it. */
export interface DeviceSignIn {
  /** To compare with the page's, or to type in there. */
  userCode: string
  /** The page that asks for the code. */
  url: string
  /** The same page with the code filled in. */
  completeUrl: string
  /** Milliseconds since 1970, by the clock of this machine. */
  endsAt: number
  baseUrl: string
  issuer: string
  clientId: string
  /** Gets the tokens once the person has approved. A secret until then. */
  deviceCode: string
  intervalMs: number
}

export interface BeginDeviceOptions extends Reach {
  /** Default: the command line's. */
  clientId?: string | undefined
  /** With `offline_access`, the token is renewed; without, the sign-in lasts 300 s. */
  scopes: readonly string[]
}

/** Begins the sign-in of a person who approves it in a browser, on this device or another (RFC 8628). Throws PlatformError, and the signal's reason. */
export async function beginDeviceSignIn(options: BeginDeviceOptions): Promise<DeviceSignIn> {
  refuseUnknown('beginDeviceSignIn', options, ['baseUrl', 'fetch', 'signal', 'clientId', 'scopes'])
  const { clientId = COMMAND_LINE, scopes } = options
  const issuer = await reachIssuer(options, clientId)
  const { server, client } = issuer
  const device = await checked('POST /oauth2/device_authorization', async () => {
    const request = { scope: scopes.join(' ') }
    const answer = await oauth.deviceAuthorizationRequest(server, client, oauth.None(), request, issuer.options())
    return oauth.processDeviceAuthorizationResponse(server, client, answer)
  })
  const { verification_uri: url, expires_in: expiresInSeconds } = device
  return {
    userCode: device.user_code,
    url,
    completeUrl: device.verification_uri_complete ?? url,
    endsAt: Date.now() + expiresInSeconds * 1_000,
    baseUrl: options.baseUrl,
    issuer: server.issuer,
    clientId,
    deviceCode: device.device_code,
    intervalMs: (device.interval ?? 5) * 1_000,
  }
}

export interface FinishDeviceOptions extends Omit<Reach, 'baseUrl'> {
  store: TokenStore
  /** False asks once, and throws PlatformError with the code `authorization_pending` if the person has not decided. Default: true. */
  wait?: boolean | undefined
}

/**
 * Ends the sign-in of a device, and writes the store. Asks until the person has decided.
 *
 * Throws PlatformError with the code `access_denied` if the person refuses and `expired_token` if they wait too long, and the
 * signal's reason.
 */
export async function finishDeviceSignIn(begun: DeviceSignIn, options: FinishDeviceOptions): Promise<void> {
  refuseUnknown('finishDeviceSignIn', options, ['store', 'wait', 'fetch', 'signal'])
  const { store, wait = true, ...reach } = options
  const { baseUrl, clientId, deviceCode, endsAt } = begun
  const issuer = await reachIssuer({ ...reach, baseUrl }, clientId, begun.issuer)
  const { server, client } = issuer
  let { intervalMs } = begun
  for (;;) {
    try {
      const tokens = await checked('POST /oauth2/token', async () => {
        const answer = await oauth.deviceCodeGrantRequest(
          server,
          client,
          oauth.None(),
          deviceCode,
          issuer.options(once),
        )
        return oauth.processDeviceCodeResponse(server, client, answer)
      })
      return await issuer.keep(store, tokens)
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      const isTooFast = error.code === 'slow_down' || error.retryable
      if (!isTooFast && error.code !== 'authorization_pending') throw error
      // Whoever asks once need not know how fast others ask: to be told to slow down is to be told to wait.
      if (!wait)
        throw error.code === 'slow_down'
          ? new PlatformError('The person has not decided yet', {
              status: error.status,
              code: 'authorization_pending',
              operation: error.operation,
              attempts: error.attempts,
            })
          : error
      if (isTooFast) intervalMs += SLOWER_MS
      if (Date.now() + intervalMs >= endsAt)
        throw new PlatformError('Nobody has approved the sign-in in time', {
          status: 400,
          code: 'expired_token',
          operation: error.operation,
          attempts: error.attempts,
        })
    }
    await pause(intervalMs, reach.signal)
  }
}

export interface DeviceSignInOptions extends BeginDeviceOptions {
  store: TokenStore
  /** Shows the code. The platform is asked for the person's decision once this has returned. */
  onCode(code: DeviceSignIn): void | Promise<void>
}

/** Begins the sign-in of a device, shows its code and ends it. Throws what `beginDeviceSignIn` and `finishDeviceSignIn` throw. */
export async function signInByDevice(options: DeviceSignInOptions): Promise<void> {
  const names = ['baseUrl', 'fetch', 'signal', 'clientId', 'scopes', 'store', 'onCode']
  refuseUnknown('signInByDevice', options, names)
  const { store, onCode, ...begin } = options
  const begun = await beginDeviceSignIn(begin)
  await onCode(begun)
  await finishDeviceSignIn(begun, { store, fetch: options.fetch, signal: options.signal })
}
