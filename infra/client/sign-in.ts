import { Browser } from '@platform/testkit/browser'
import { type Ask, form } from './ask.ts'

interface Discovery {
  token_endpoint: string
  device_authorization_endpoint: string
}

/** The answer of the device authorization endpoint (RFC 8628 §3.2). */
interface Device {
  device_code: string
  user_code: string
  verification_uri: string
  verification_uri_complete: string
  interval: number
}

export interface Tokens {
  access_token: string
  refresh_token: string
  id_token: string
  expires_in: number
}

/** A device authorization that a person has to approve. */
export interface DeviceSignIn {
  device: Device
  /** Asks for the tokens, demanding a status: 400 while nobody has approved. */
  poll<T>(status: number): Promise<T>
  /** Signs a person in on the verification page, and approves. */
  approve(person: { email: string; password: string }): Promise<void>
}

/** Begins device authorization, as a command-line tool does. */
export async function beginDeviceSignIn(
  ask: Ask,
  idpUrl: string,
  clientId: string,
  scopes: readonly string[],
): Promise<DeviceSignIn> {
  const endpoints = await ask<Discovery>(`${idpUrl}/.well-known/openid-configuration`, 200)
  const device = await ask<Device>(
    endpoints.device_authorization_endpoint,
    200,
    form({ client_id: clientId, scope: scopes.join(' ') }),
  )
  return {
    device,
    poll: (status) =>
      ask(
        endpoints.token_endpoint,
        status,
        form({
          grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
          client_id: clientId,
          device_code: device.device_code,
        }),
      ),
    async approve(person) {
      const browser = new Browser()
      let page = await browser.follow(await browser.visit(device.verification_uri_complete), idpUrl)
      if (!page.body.includes('name="password"'))
        throw new Error(`Expected the sign-in page, got ${page.status}: ${page.body.slice(0, 500)}`)
      page = await browser.follow(await browser.submit(page, { ...person }), idpUrl)
      if (!page.body.includes(device.user_code))
        throw new Error(`Expected the approval page with the code, got ${page.status}: ${page.body.slice(0, 500)}`)
      page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'approve' }), idpUrl)
      if (page.status !== 200)
        throw new Error(`Expected the approval to be confirmed, got ${page.status}: ${page.body.slice(0, 500)}`)
    },
  }
}
