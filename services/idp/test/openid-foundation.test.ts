import { Browser } from '@platform/testkit/browser'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { basic, REDIRECT_URI, startTestIdp, type TestClient, type TestIdp, type TestPerson } from './start.ts'

// What the Basic OP and Config OP plans of the OpenID Foundation's conformance suite look at, under the names of its
// modules. The plans' client is confidential, shows its secret by Basic and sends no PKCE. Where B says otherwise, B wins:
// the scopes address and phone are not in its catalogue, and its access tokens cannot be revoked.

type Parameters = Record<string, string | undefined>
interface TokenResponse {
  access_token: string
  token_type: string
  id_token: string
  refresh_token?: string
}
interface IdToken {
  sub: string
  aud: string
  exp: number
  iat: number
  auth_time: number
  nonce?: string
}

let idp: TestIdp
let client: TestClient
let ana: TestPerson
let browser: Browser
beforeAll(async () => {
  idp = await startTestIdp()
  // Time passes when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  client = await idp.client({ kind: 'confidential' })
  ana = await idp.person()
})
afterAll(() => idp.close())
beforeEach(() => {
  browser = new Browser()
})

const authorizeUrl = (parameters: Parameters = {}): string =>
  idp.authorizeUrl(client, { code_challenge: undefined, code_challenge_method: undefined, ...parameters })

/** Opens the request in the browser, and signs in where it is asked to. Answers what the client gets to see. */
async function authorize(parameters: Parameters = {}): Promise<{ answer: URLSearchParams; hasSignedIn: boolean }> {
  let visit = await browser.follow(await browser.visit(authorizeUrl(parameters)), idp.url)
  const hasSignedIn = visit.body.includes('name="password"')
  if (hasSignedIn) visit = await browser.follow(await idp.signIn(browser, visit, ana), idp.url)
  expect(visit.location?.startsWith(REDIRECT_URI)).toBe(true)
  const answer = new URL(visit.location ?? '').searchParams
  expect(answer.get('state')).toBe('a state & more')
  expect(answer.get('iss')).toBe(idp.url)
  return { answer, hasSignedIn }
}

const redeem = (code: string | null) =>
  idp.token(
    { grant_type: 'authorization_code', code: code ?? '', redirect_uri: REDIRECT_URI },
    { authorization: basic(client.id, client.secret ?? '') },
  )

/** The claims of an ID token whose signature, issuer, audience and times hold. */
async function verified(idToken: string): Promise<IdToken> {
  const { body } = await idp.send('GET /.well-known/jwks.json')
  const options = { issuer: idp.url, audience: client.id, algorithms: ['RS256'], currentDate: idp.now() }
  return (await jwtVerify<IdToken>(idToken, createLocalJWKSet(body), options)).payload
}

/** Goes through the whole flow. */
async function tokens(parameters: Parameters = {}) {
  const { answer, hasSignedIn } = await authorize(parameters)
  expect(answer.get('error')).toBeNull()
  const { status, body } = await redeem(answer.get('code'))
  expect(status).toBe(200)
  return { ...(body as TokenResponse), hasSignedIn, claims: await verified(body.id_token) }
}

const userinfo = async (accessToken: string) => {
  const { status, body } = await idp.send('GET /oauth2/userinfo', undefined, {
    authorization: `Bearer ${accessToken}`,
  })
  expect(status).toBe(200)
  return body as Record<string, unknown>
}

describe('Basic OP', () => {
  test('oidcc-server: code flow, ID token with sub, nonce and times, userinfo of the same subject', async () => {
    const { access_token, claims, token_type } = await tokens({ nonce: 'n-0S6_WzA2Mj' })
    expect(token_type).toBe('Bearer')
    expect(claims).toMatchObject({ sub: ana.userId, aud: client.id, nonce: 'n-0S6_WzA2Mj' })
    expect(claims.exp).toBe(claims.iat + 300)
    expect((await userinfo(access_token)).sub).toBe(claims.sub)
  })

  test('oidcc-response-type-missing: told on the spot (B §7)', async () => {
    const { status, location, body } = await browser.visit(authorizeUrl({ response_type: undefined }))
    expect({ status, location }).toEqual({ status: 400, location: undefined })
    expect(JSON.parse(body)).toMatchObject({ error: 'invalid_client', error_description: 'Unsupported response_type' })
  })

  test('oidcc-idtoken-signature: RS256 by the key in the JWKS that the kid names', async () => {
    const { id_token } = await tokens()
    const [header = ''] = id_token.split('.')
    const { alg, kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { alg: string; kid: string }
    expect(alg).toBe('RS256')
    const { body } = await idp.send('GET /.well-known/jwks.json')
    expect(body.keys.map((key: { kid: string }) => key.kid)).toContain(kid)
    const changed = id_token.at(-8) === 'A' ? 'B' : 'A'
    const tampered = `${id_token.slice(0, -8)}${changed}${id_token.slice(-7)}`
    await expect(verified(tampered)).rejects.toThrow('signature')
  })

  test('oidcc-userinfo-get, oidcc-userinfo-post-header, oidcc-userinfo-post-body', async () => {
    const { access_token, claims } = await tokens()
    const bearer = { authorization: `Bearer ${access_token}` }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    for (const answer of [
      await idp.send('GET /oauth2/userinfo', undefined, bearer),
      await idp.send('POST /oauth2/userinfo', undefined, bearer),
      await idp.send('POST /oauth2/userinfo', new URLSearchParams({ access_token }).toString(), form),
    ]) {
      expect(answer).toMatchObject({ status: 200, body: { sub: claims.sub } })
      expect(answer.headers['content-type']).toMatch(/^application\/json/)
    }
  })

  test('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async () => {
    expect((await tokens({ nonce: undefined })).claims).not.toHaveProperty('nonce')
  })

  test('oidcc-scope-profile, oidcc-scope-email, oidcc-scope-all: claims of the scopes, by userinfo', async () => {
    const profile = await userinfo((await tokens({ scope: 'openid profile' })).access_token)
    expect(profile).toMatchObject({ name: 'Ana Silva', given_name: 'Ana', family_name: 'Silva' })
    expect(typeof profile.updated_at).toBe('number')
    expect(profile).not.toHaveProperty('email')
    const email = await userinfo((await tokens({ scope: 'openid email' })).access_token)
    expect(email).toEqual({ sub: ana.userId, email: ana.email, email_verified: true })
    const all = await userinfo((await tokens({ scope: 'openid profile email' })).access_token)
    expect(all).toMatchObject({ ...profile, ...email })
  })

  test.each(['address', 'phone'])(
    'oidcc-scope-%s: not in the catalogue, so invalid_scope (B §2, §4)',
    async (scope) => {
      const { answer } = await authorize({ scope: `openid ${scope}` })
      expect(answer.get('error')).toBe('invalid_scope')
    },
  )

  test('oidcc-ensure-other-scope-order-succeeds', async () => {
    const { access_token } = await tokens({ scope: 'email openid' })
    expect(await userinfo(access_token)).toMatchObject({ email: ana.email })
  })

  test.each(['page', 'popup'])('oidcc-display-%s', async (display) => {
    expect((await tokens({ display })).claims.sub).toBe(ana.userId)
  })

  test('oidcc-prompt-login: asks again, and auth_time is later', async () => {
    const first = await tokens()
    idp.advance(2_000)
    const second = await tokens({ prompt: 'login' })
    expect([first.hasSignedIn, second.hasSignedIn]).toEqual([true, true])
    expect(second.claims.auth_time).toBeGreaterThan(first.claims.auth_time)
  })

  test('oidcc-prompt-none-not-logged-in: login_required', async () => {
    expect((await authorize({ prompt: 'none' })).answer.get('error')).toBe('login_required')
  })

  test('oidcc-prompt-none-logged-in: a code without a page, sub and auth_time unchanged', async () => {
    const first = await tokens()
    idp.advance(2_000)
    const second = await tokens({ prompt: 'none' })
    expect(second.hasSignedIn).toBe(false)
    expect(second.claims).toMatchObject({ sub: first.claims.sub, auth_time: first.claims.auth_time })
  })

  test('oidcc-max-age-1: asks again after a second, and auth_time is later', async () => {
    const first = await tokens({ max_age: '1' })
    idp.advance(2_500)
    const second = await tokens({ max_age: '1' })
    expect(second.hasSignedIn).toBe(true)
    expect(second.claims.auth_time).toBeGreaterThan(first.claims.auth_time)
    expect(second.claims.auth_time).toBe(Math.floor(idp.now().getTime() / 1_000))
  })

  test('oidcc-max-age-10000: the session is young enough, auth_time is there and the same', async () => {
    const first = await tokens()
    idp.advance(2_000)
    const second = await tokens({ max_age: '10000' })
    expect(second.hasSignedIn).toBe(false)
    expect(second.claims.auth_time).toBe(first.claims.auth_time)
  })

  test('oidcc-ensure-request-with-unknown-parameter-succeeds', async () => {
    expect((await tokens({ extra: 'foobar' })).claims.sub).toBe(ana.userId)
  })

  test('oidcc-id-token-hint: with prompt=none the same user, without a page', async () => {
    const first = await tokens()
    const second = await tokens({ prompt: 'none', id_token_hint: first.id_token })
    expect(second.hasSignedIn).toBe(false)
    expect(second.claims.sub).toBe(first.claims.sub)
  })

  test('oidcc-login-hint: the address is filled in', async () => {
    const page = await browser.follow(await browser.visit(authorizeUrl({ login_hint: ana.email })), idp.url)
    expect(page.body).toContain(`value="${ana.email}"`)
    expect((await tokens({ login_hint: ana.email })).claims.sub).toBe(ana.userId)
  })

  test.each([
    ['oidcc-ui-locales', { ui_locales: 'se' }],
    ['oidcc-claims-locales', { claims_locales: 'se' }],
    ['oidcc-ensure-request-with-acr-values-succeeds', { acr_values: 'urn:mace:incommon:iap:silver 1 2' }],
    ['oidcc-claims-essential', { claims: '{"userinfo":{"name":{"essential":true}}}' }],
  ])('%s', async (_, parameters) => {
    expect((await tokens(parameters)).claims.sub).toBe(ana.userId)
  })

  test('oidcc-codereuse: the second use of a code is invalid_grant', async () => {
    const code = (await authorize()).answer.get('code')
    expect((await redeem(code)).status).toBe(200)
    expect(await redeem(code)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  })

  test('oidcc-codereuse-30seconds: what can be revoked is; access tokens end by themselves (B §2, D61)', async () => {
    const code = (await authorize({ scope: 'openid offline_access' })).answer.get('code')
    const { body } = await redeem(code)
    idp.advance(30_000)
    expect(await redeem(code)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    const refreshed = await idp.token(
      { grant_type: 'refresh_token', refresh_token: body.refresh_token },
      { authorization: basic(client.id, client.secret ?? '') },
    )
    expect(refreshed).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await userinfo(body.access_token)).sub).toBe(ana.userId)
  })

  test('oidcc-ensure-registered-redirect-uri: another one is told on the spot, never redirected to', async () => {
    const { status, location } = await browser.visit(authorizeUrl({ redirect_uri: `${REDIRECT_URI}/other` }))
    expect({ status, location }).toEqual({ status: 400, location: undefined })
  })

  test('oidcc-ensure-post-request-succeeds: the request may be POSTed', async () => {
    const url = new URL(authorizeUrl())
    const posted = await browser.visit(`${url.origin}${url.pathname}`, Object.fromEntries(url.searchParams))
    const page = await browser.follow(posted, idp.url)
    const done = await browser.follow(await idp.signIn(browser, page, ana), idp.url)
    expect((await redeem(new URL(done.location ?? '').searchParams.get('code'))).status).toBe(200)
  })

  test('oidcc-server-client-secret-post', async () => {
    const code = (await authorize()).answer.get('code') ?? ''
    const { status, body } = await idp.token({
      grant_type: 'authorization_code',
      code,
      redirect_uri: REDIRECT_URI,
      client_id: client.id,
      client_secret: client.secret ?? '',
    })
    expect(status).toBe(200)
    expect((await verified(body.id_token)).sub).toBe(ana.userId)
  })

  test.each([
    [
      'oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported',
      { request: 'eyJhbGciOiJub25lIn0.e30.' },
      'request_not_supported',
    ],
    [
      'oidcc-ensure-request-object-with-redirect-uri',
      { request: 'eyJhbGciOiJub25lIn0.eyJyZWRpcmVjdF91cmkiOiJ4In0.' },
      'request_not_supported',
    ],
    [
      'oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported',
      { request_uri: 'https://app.example.com/request.jwt' },
      'request_uri_not_supported',
    ],
  ])('%s', async (_, parameters, error) => {
    expect((await authorize(parameters)).answer.get('error')).toBe(error)
  })

  test('oidcc-refresh-token: same iss, sub, aud and auth_time, a later iat, and a token nobody guesses', async () => {
    const first = await tokens({ scope: 'openid offline_access', nonce: 'n' })
    idp.advance(1_500)
    const { body } = await idp.token(
      { grant_type: 'refresh_token', refresh_token: first.refresh_token ?? '' },
      { authorization: basic(client.id, client.secret ?? '') },
    )
    const claims = await verified(body.id_token)
    const { sub, aud, auth_time } = first.claims
    expect(claims).toMatchObject({ sub, aud, auth_time })
    expect(claims.iat).toBeGreaterThan(first.claims.iat)
    expect(claims).not.toHaveProperty('nonce')
    // RFC 6749 §10.10 asks for 128 bits: the MAC alone has 256, and differs from token to token.
    const macs = [first.refresh_token, body.refresh_token].map((token: string | undefined) => token?.split('.').at(-1))
    expect(macs.map((mac) => Buffer.from(mac ?? '', 'base64url').length)).toEqual([32, 32])
    expect(macs[0]).not.toBe(macs[1])
  })

  test('oidcc-ensure-request-with-valid-pkce-succeeds', async () => {
    const code = await idp.code(client, ana)
    expect((await idp.token(idp.codeForm(client, code))).status).toBe(200)
  })
})

describe('Config OP', () => {
  test('oidcc-discovery-endpoint-verification: complete, of this issuer, and true', async () => {
    const { status, headers, body } = await idp.send('GET /.well-known/openid-configuration')
    expect(status).toBe(200)
    expect(headers['content-type']).toMatch(/^application\/json/)
    expect(body.issuer).toBe(idp.url)
    for (const name of ['authorization', 'token', 'userinfo', 'revocation', 'device_authorization', 'end_session'])
      expect(new URL(body[`${name}_endpoint`]).origin).toBe(idp.url)
    for (const name of [
      'response_types_supported',
      'subject_types_supported',
      'id_token_signing_alg_values_supported',
      'scopes_supported',
      'claims_supported',
      'grant_types_supported',
      'token_endpoint_auth_methods_supported',
    ])
      expect(body[name].length).toBeGreaterThan(0)
    expect(body.scopes_supported).toContain('openid')
    expect(body.id_token_signing_alg_values_supported).toContain('RS256')
    // Their defaults in the specification are not what is done here, so they have to be said.
    expect(body).toMatchObject({
      claims_parameter_supported: false,
      request_parameter_supported: false,
      request_uri_parameter_supported: false,
    })
    // Each claim that userinfo or an ID token holds is announced.
    const { access_token, claims } = await tokens({ scope: 'openid profile email', nonce: 'n' })
    const claimNames = [...Object.keys(claims), ...Object.keys(await userinfo(access_token))]
    expect(claimNames.filter((name) => !body.claims_supported.includes(name))).toEqual([])
  })

  test('oidcc-discovery-endpoint-verification: the JWKS holds public keys of 2,048 bits, each with its own kid', async () => {
    const { body: discovery } = await idp.send('GET /.well-known/openid-configuration')
    const answer = await fetch(discovery.jwks_uri)
    const { keys } = (await answer.json()) as { keys: Record<string, string>[] }
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(keys.length)
    for (const key of keys) {
      expect(key).toMatchObject({ kty: 'RSA', use: 'sig', alg: 'RS256' })
      expect(Buffer.from(key.n ?? '', 'base64url')).toHaveLength(256)
      for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi']) expect(key).not.toHaveProperty(secret)
    }
  })
})
