import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DEVICE_GRANT, REDIRECT_URI, startTestIdp, type TestClient, type TestIdp, type TestPerson } from './start.ts'

// Both libraries as they are published. All they are told besides the issuer and the client is that http is allowed here.

let idp: TestIdp
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  ana = await idp.person()
})
afterAll(() => idp.close())

const SCOPE = 'openid profile email offline_access'
const BYE = 'https://app.example.com/bye'
const LOOSE = { execute: [openid.allowInsecureRequests] }
const loose = { [oauth.allowInsecureRequests]: true }

const kinds = [
  { name: 'a public client', kind: 'public', ofOpenid: openid.None, ofOauth: oauth.None },
  {
    name: 'a confidential client with client_secret_basic',
    kind: 'confidential',
    ofOpenid: openid.ClientSecretBasic,
    ofOauth: oauth.ClientSecretBasic,
  },
  {
    name: 'a confidential client with client_secret_post',
    kind: 'confidential',
    ofOpenid: openid.ClientSecretPost,
    ofOauth: oauth.ClientSecretPost,
  },
] as const
type Kind = (typeof kinds)[number]

const newClient = ({ kind }: Kind): Promise<TestClient> =>
  idp.client({ kind, scopes: '*', postLogoutRedirectUris: [BYE] })

/** Walks the pages that a standard client sends its user to; comes back with where they end. */
async function walk(url: URL): Promise<URL> {
  const browser = await idp.signedIn(ana)
  const { location } = await browser.follow(await browser.visit(url.href), idp.url)
  return new URL(location ?? '')
}

/** Approves what a device asks for. */
async function approve(verificationUri: string | undefined): Promise<void> {
  const browser = await idp.signedIn(ana)
  await browser.submit(await browser.visit(verificationUri ?? ''), {}, { name: 'decision', value: 'approve' })
}

/** Follows a sign-out to its end, where the client waits, and shows that the session is over. */
async function signOut(url: string): Promise<string | undefined> {
  const browser = await idp.signedIn(ana)
  // The hint is of another session, so this one is asked about.
  const { location } = await browser.submit(await browser.visit(url), {})
  expect((await browser.visit(`${idp.url}/`)).location).toBe(`${idp.url}/sign-in`)
  return location
}

const claims = () => ({ sub: ana.userId, email: ana.email, email_verified: true, name: 'Ana Silva' })

describe.each(kinds)('openid-client as $name', (how) => {
  const configure = async ({ id, secret }: TestClient, algorithm: 'oidc' | 'oauth2' = 'oidc') =>
    openid.discovery(new URL(idp.url), id, undefined, how.ofOpenid(secret ?? ''), { ...LOOSE, algorithm })

  test('code, PKCE, nonce and max_age, userinfo by GET and POST, refresh, revocation, sign-out', async () => {
    const config = await configure(await newClient(how))
    const pkceCodeVerifier = openid.randomPKCECodeVerifier()
    const expectedState = openid.randomState()
    const expectedNonce = openid.randomNonce()
    const callback = await walk(
      openid.buildAuthorizationUrl(config, {
        redirect_uri: REDIRECT_URI,
        scope: SCOPE,
        code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: 'S256',
        state: expectedState,
        nonce: expectedNonce,
        max_age: '3600',
      }),
    )
    const tokens = await openid.authorizationCodeGrant(config, callback, {
      pkceCodeVerifier,
      expectedState,
      expectedNonce,
      idTokenExpected: true,
      maxAge: 3_600,
    })
    const { access_token: accessToken } = tokens
    expect(tokens.claims()?.sub).toBe(ana.userId)
    expect(await openid.fetchUserInfo(config, accessToken, ana.userId)).toMatchObject(claims())
    const userinfo = new URL(config.serverMetadata().userinfo_endpoint ?? '')
    const posted = await openid.fetchProtectedResource(config, accessToken, userinfo, 'POST')
    expect(await posted.json()).toMatchObject(claims())

    const refreshed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
    expect(refreshed.claims()?.sub).toBe(ana.userId)
    expect(refreshed.refresh_token).not.toBe(tokens.refresh_token)
    await openid.tokenRevocation(config, refreshed.refresh_token ?? '')
    await expect(openid.refreshTokenGrant(config, refreshed.refresh_token ?? '')).rejects.toMatchObject({
      error: 'invalid_grant',
    })

    const end = openid.buildEndSessionUrl(config, {
      id_token_hint: refreshed.id_token ?? '',
      post_logout_redirect_uri: BYE,
      state: expectedState,
    })
    expect(await signOut(end.href)).toBe(`${BYE}?${new URLSearchParams({ state: expectedState }).toString()}`)
  })

  test('the device flow', async () => {
    const config = await configure(await newClient(how), 'oauth2')
    const device = await openid.initiateDeviceAuthorization(config, { scope: 'openid offline_access' })
    await approve(device.verification_uri_complete)
    const tokens = await openid.pollDeviceAuthorizationGrant(config, { ...device, interval: 0.1 })
    expect(tokens.claims()?.sub).toBe(ana.userId)
    expect((await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')).claims()?.sub).toBe(ana.userId)
  })
})

describe.each(kinds)('oauth4webapi as $name', (how) => {
  const issuer = () => new URL(idp.url)
  const discover = async (algorithm: 'oidc' | 'oauth2' = 'oidc') =>
    oauth.processDiscoveryResponse(issuer(), await oauth.discoveryRequest(issuer(), { ...loose, algorithm }))

  test('code, PKCE, nonce and max_age, userinfo by GET and POST, refresh, revocation, sign-out', async () => {
    const as = await discover()
    const { id, secret } = await newClient(how)
    const client = { client_id: id, default_max_age: 3_600 }
    const authentication = how.ofOauth(secret ?? '')
    const [verifier, state, nonce] = [
      oauth.generateRandomCodeVerifier(),
      oauth.generateRandomState(),
      oauth.generateRandomNonce(),
    ]
    const start = new URL(as.authorization_endpoint ?? '')
    start.search = new URLSearchParams({
      client_id: id,
      redirect_uri: REDIRECT_URI,
      response_type: 'code',
      scope: SCOPE,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
      max_age: '3600',
    }).toString()
    const callback = oauth.validateAuthResponse(as, client, await walk(start), state)
    const redeemed = await oauth.authorizationCodeGrantRequest(
      as,
      client,
      authentication,
      callback,
      REDIRECT_URI,
      verifier,
      loose,
    )
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, redeemed, {
      expectedNonce: nonce,
      requireIdToken: true,
    })
    await oauth.validateApplicationLevelSignature(as, redeemed, loose)
    const idToken = oauth.getValidatedIdTokenClaims(tokens)
    expect(idToken).toMatchObject({ sub: ana.userId, nonce, aud: id })

    // A service of ours that is called with the access token (RFC 9068).
    const called = new Request('https://api.example.com/', {
      headers: { authorization: `Bearer ${tokens.access_token}` },
    })
    expect(await oauth.validateJwtAccessToken(as, called, 'https://api.example.com', loose)).toMatchObject({
      sub: ana.userId,
      client_id: id,
      scope: SCOPE,
    })

    const answer = await oauth.userInfoRequest(as, client, tokens.access_token, loose)
    expect(await oauth.processUserInfoResponse(as, client, ana.userId, answer)).toMatchObject(claims())
    const userinfo = new URL(as.userinfo_endpoint ?? '')
    const posted = await oauth.protectedResourceRequest(tokens.access_token, 'POST', userinfo, undefined, null, loose)
    expect(await oauth.processUserInfoResponse(as, client, ana.userId, posted)).toMatchObject(claims())

    const refresh = async (token = '') =>
      oauth.processRefreshTokenResponse(
        as,
        client,
        await oauth.refreshTokenGrantRequest(as, client, authentication, token, loose),
      )
    const refreshed = await refresh(tokens.refresh_token)
    expect(oauth.getValidatedIdTokenClaims(refreshed)).toMatchObject({
      sub: ana.userId,
      auth_time: idToken?.auth_time,
    })
    await oauth.processRevocationResponse(
      await oauth.revocationRequest(as, client, authentication, refreshed.refresh_token ?? '', loose),
    )
    await expect(refresh(refreshed.refresh_token)).rejects.toMatchObject({ error: 'invalid_grant' })

    const end = new URL(as.end_session_endpoint ?? '')
    end.search = new URLSearchParams({
      id_token_hint: refreshed.id_token ?? '',
      post_logout_redirect_uri: BYE,
      state,
    }).toString()
    expect(await signOut(end.href)).toBe(`${BYE}?${new URLSearchParams({ state }).toString()}`)
  })

  test('the device flow, polling until it is approved', async () => {
    const as = await discover('oauth2')
    const { id, secret } = await newClient(how)
    const client = { client_id: id }
    const authentication = how.ofOauth(secret ?? '')
    const scope = new URLSearchParams({ scope: 'openid offline_access' })
    const device = await oauth.processDeviceAuthorizationResponse(
      as,
      client,
      await oauth.deviceAuthorizationRequest(as, client, authentication, scope, loose),
    )
    const poll = async () =>
      oauth.processDeviceCodeResponse(
        as,
        client,
        await oauth.deviceCodeGrantRequest(as, client, authentication, device.device_code, loose),
      )
    await expect(poll()).rejects.toMatchObject({ error: 'authorization_pending' })
    await expect(poll()).rejects.toMatchObject({ error: 'slow_down' })
    await approve(device.verification_uri_complete)
    const tokens = await poll()
    expect(oauth.getValidatedIdTokenClaims(tokens)?.sub).toBe(ana.userId)
    expect(tokens.refresh_token).toBeDefined()
  })
})

describe('what comes back from authorize is held against the issuer (RFC 9207)', () => {
  const configure = async () => {
    const { id } = await idp.client()
    return openid.discovery(new URL(idp.url), id, undefined, openid.None(), LOOSE)
  }
  const ask = async (parameters: Record<string, string>) => {
    const config = await configure()
    const url = openid.buildAuthorizationUrl(config, { redirect_uri: REDIRECT_URI, state: 's', ...parameters })
    return { config, callback: await walk(url) }
  }

  test('a refusal that comes back by redirect is understood', async () => {
    const { config, callback } = await ask({ scope: 'nope' })
    await expect(openid.authorizationCodeGrant(config, callback, { expectedState: 's' })).rejects.toMatchObject({
      error: 'invalid_scope',
    })
  })

  test.each([
    ['of another issuer', 'https://evil.example.com'],
    ['of nobody', undefined],
  ])('an answer %s is refused, a code or an error alike', async (_, iss) => {
    const verifier = openid.randomPKCECodeVerifier()
    const pkce = {
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }
    for (const parameters of [{ scope: 'openid', ...pkce }, { scope: 'nope' }]) {
      const { config, callback } = await ask(parameters)
      expect(callback.searchParams.get('iss')).toBe(idp.url)
      if (iss === undefined) callback.searchParams.delete('iss')
      else callback.searchParams.set('iss', iss)
      const checks = { expectedState: 's', pkceCodeVerifier: verifier }
      await expect(openid.authorizationCodeGrant(config, callback, checks)).rejects.toMatchObject({
        cause: { message: expect.stringContaining('"iss"') },
      })
      const client = { client_id: config.clientMetadata().client_id }
      const as = config.serverMetadata() as oauth.AuthorizationServer
      expect(() => oauth.validateAuthResponse(as, client, callback, 's')).toThrow('"iss"')
    }
  })
})

test('a device flow that the user denies ends for a standard client', async () => {
  const { id } = await idp.client({ grants: [DEVICE_GRANT] })
  const config = await openid.discovery(new URL(idp.url), id, undefined, openid.None(), LOOSE)
  const device = await openid.initiateDeviceAuthorization(config, { scope: 'openid' })
  const browser = await idp.signedIn(ana)
  const page = await browser.visit(device.verification_uri_complete ?? '')
  await browser.submit(page, {}, { name: 'decision', value: 'deny' })
  await expect(openid.pollDeviceAuthorizationGrant(config, { ...device, interval: 0.1 })).rejects.toMatchObject({
    error: 'access_denied',
  })
})
