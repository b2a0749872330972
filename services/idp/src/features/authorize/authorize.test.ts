// engines: postgres
import { Browser } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  CHALLENGE,
  claimsOf,
  REDIRECT_URI,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { endAllAccess } from '../access/end-access.ts'
import { setClientPolicy } from '../clients/clients.ts'

let idp: TestIdp
let client: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  client = await idp.client()
  ana = await idp.person()
})
afterAll(() => idp.close())

type Parameters = Record<string, string | undefined>
const get = async (url: string) => new Browser().visit(url)
const authorize = (parameters: Parameters = {}, by = client) => get(idp.authorizeUrl(by, parameters))
const NUL = '\0'

describe('what is answered here, never by a redirect (B §4 point 1, D58, D59)', () => {
  test.each([
    ['an unsupported response_type', { response_type: 'token' }, 'invalid_client', 'Unsupported response_type'],
    ['response_type code id_token', { response_type: 'code id_token' }, 'invalid_client', 'Unsupported response_type'],
    ['a missing response_type', { response_type: undefined }, 'invalid_client', 'Unsupported response_type'],
    [
      'an unsupported response_type of an unknown client',
      { response_type: 'x', client_id: 'y' },
      'invalid_client',
      'Unsupported response_type',
    ],
    ['a missing client_id', { client_id: undefined }, 'invalid_client', undefined],
    ['a client_id that is no UUID', { client_id: "' or 1=1 --" }, 'invalid_client', undefined],
    ['an unknown client_id', { client_id: '00000000-0000-4000-8000-000000000000' }, 'invalid_client', undefined],
    ['a client_id with NUL', { client_id: `a${NUL}` }, 'invalid_request', undefined],
    ['a missing redirect_uri', { redirect_uri: undefined }, 'invalid_request', undefined],
    ['another redirect_uri', { redirect_uri: 'https://evil.example.com/' }, 'invalid_request', undefined],
    ['a redirect_uri with more path', { redirect_uri: `${REDIRECT_URI}/x` }, 'invalid_request', undefined],
    ['a redirect_uri with a query', { redirect_uri: `${REDIRECT_URI}?x=1` }, 'invalid_request', undefined],
    ['a redirect_uri in other case', { redirect_uri: REDIRECT_URI.toUpperCase() }, 'invalid_request', undefined],
    [
      'a redirect_uri with a user',
      { redirect_uri: 'https://app.example.com@evil.example.com/callback' },
      'invalid_request',
      undefined,
    ],
    [
      'a redirect_uri with another port',
      { redirect_uri: 'https://app.example.com:8443/callback' },
      'invalid_request',
      undefined,
    ],
    [
      'a redirect_uri that climbs',
      { redirect_uri: 'https://app.example.com/x/../callback' },
      'invalid_request',
      undefined,
    ],
    ['a missing state', { state: undefined }, 'invalid_request', undefined],
    ['an empty state', { state: '' }, 'invalid_request', undefined],
    ['a state with NUL', { state: `a${NUL}` }, 'invalid_request', undefined],
  ])('%s is JSON 400', async (_, parameters: Parameters, error, description) => {
    const { status, headers, body } = await authorize(parameters)
    expect({ status, location: headers.get('location') }).toEqual({ status: 400, location: null })
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(JSON.parse(body)).toMatchObject({ error, error_description: description ?? expect.any(String) })
  })

  test.each(['response_type', 'client_id', 'redirect_uri', 'state'])('a second %s is JSON 400', async (name) => {
    const url = idp.authorizeUrl(client)
    const value = new URL(url).searchParams.get(name) ?? ''
    const { status, location, body } = await get(`${url}&${name}=${encodeURIComponent(value)}`)
    expect({ status, location }).toEqual({ status: 400, location: undefined })
    expect(JSON.parse(body)).toMatchObject({ error: 'invalid_request' })
  })

  test('response_type is judged before the client, the client before the URI, the URI before state', async () => {
    const wrong = { client_id: 'x', redirect_uri: 'https://evil.example.com', state: undefined }
    const errorOf = async (parameters: Parameters) =>
      JSON.parse((await authorize(parameters)).body) as { error_description: string }
    expect((await errorOf({ ...wrong, response_type: 'x' })).error_description).toBe('Unsupported response_type')
    expect((await errorOf(wrong)).error_description).toContain('client_id')
    expect((await errorOf({ ...wrong, client_id: client.id })).error_description).toContain('redirect_uri')
    expect((await errorOf({ state: undefined })).error_description).toContain('state')
  })

  test('a disabled client is an unknown one', async () => {
    const gone = await idp.client()
    const { disableClient } = await import('../access/disable-client.ts')
    await disableClient(idp.deps, gone.id)
    expect((await authorize({}, gone)).status).toBe(400)
  })
})

describe('what the client is told by redirect (B §4 point 2, D59)', () => {
  test.each([
    ['a missing scope', { scope: undefined }, 'invalid_scope'],
    ['an unknown scope', { scope: 'openid nope' }, 'invalid_scope'],
    ['a scope in other case', { scope: 'OpenID' }, 'invalid_scope'],
    ['a missing code_challenge', { code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    ['a method without a challenge', { code_challenge: undefined }, 'invalid_request'],
    ['the method plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['a challenge without a method, which means plain', { code_challenge_method: undefined }, 'invalid_request'],
    ['a challenge too short', { code_challenge: 'short' }, 'invalid_request'],
    ['a challenge that is not base64url', { code_challenge: CHALLENGE.replace(/.$/, '=') }, 'invalid_request'],
    ['a nonce of 513 characters', { nonce: 'n'.repeat(513) }, 'invalid_request'],
    ['a nonce with NUL', { nonce: `n${NUL}` }, 'invalid_request'],
    ['an unknown prompt', { prompt: 'please' }, 'invalid_request'],
    ['prompt none beside another', { prompt: 'none login' }, 'invalid_request'],
    ['a max_age that is no number', { max_age: '-1' }, 'invalid_request'],
    ['a response_mode', { response_mode: 'fragment' }, 'invalid_request'],
    ['a request object', { request: 'eyJ' }, 'request_not_supported'],
    ['a request_uri', { request_uri: 'https://evil.example.com' }, 'request_uri_not_supported'],
    ['an id_token_hint of someone else', { id_token_hint: 'eyJhbGciOiJub25lIn0.e30.' }, 'invalid_request'],
    ['prompt none without a session', { prompt: 'none' }, 'login_required'],
  ])('%s', async (_, parameters: Parameters, error) => {
    const { status, location, headers } = await authorize(parameters)
    expect(status).toBe(302)
    const target = new URL(location ?? '')
    expect(target.origin + target.pathname).toBe(REDIRECT_URI)
    expect(Object.fromEntries(target.searchParams)).toEqual({
      error,
      error_description: expect.any(String),
      state: 'a state & more',
      iss: idp.url,
    })
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test('a second scope or nonce', async () => {
    for (const more of ['scope=openid', 'nonce=a&nonce=b', 'foo=1&foo=2']) {
      const { location } = await get(`${idp.authorizeUrl(client)}&${more}`)
      expect(new URL(location ?? '').searchParams.get('error')).toBe('invalid_request')
    }
  })

  test('a scope that the client may not have, and offline_access without the grant for it (D70)', async () => {
    const narrow = await idp.client({ scopes: ['openid', 'email'], grants: ['authorization_code'] })
    const wide = await idp.client({ grants: ['authorization_code'] })
    for (const [by, scope] of [
      [narrow, 'openid profile'],
      [wide, 'openid offline_access'],
    ] as const) {
      const { location } = await authorize({ scope }, by)
      expect(new URL(location ?? '').searchParams.get('error')).toBe('invalid_scope')
    }
    expect((await authorize({ scope: 'email' }, narrow)).location).toContain('/sign-in?')
  })

  test('a client that is not allowed the flow', async () => {
    const { location } = await authorize({}, await idp.client({ grants: ['refresh_token'] }))
    expect(new URL(location ?? '').searchParams.get('error')).toBe('unauthorized_client')
  })

  test('a confidential client may leave PKCE out, yet plain is refused to it as well (B §4)', async () => {
    const server = await idp.client({ kind: 'confidential' })
    const none = { code_challenge: undefined, code_challenge_method: undefined }
    expect((await authorize(none, server)).location).toContain('/sign-in?')
    for (const plain of [{ code_challenge_method: 'plain' }, { code_challenge_method: undefined }]) {
      const { location } = await authorize(plain, server)
      expect(new URL(location ?? '').searchParams.get('error')).toBe('invalid_request')
    }
  })

  test('the query of a registered URI is kept', async () => {
    const uri = 'https://app.example.com/cb?tenant=a%20b'
    const { location } = await authorize(
      { redirect_uri: uri, scope: 'nope' },
      await idp.client({ redirectUris: [uri] }),
    )
    expect(location?.startsWith(`${uri}&error=invalid_scope&`)).toBe(true)
  })
})

describe('redirect URIs on loopback (RFC 8252 §7.3)', () => {
  test.each([
    ['http://127.0.0.1:51004/cb', true],
    ['http://127.0.0.1/cb', true],
    ['http://[::1]:8000/cb', true],
    ['http://localhost:3000/cb', true],
    ['http://localhost:3001/cb', false],
    ['http://127.0.0.1:51004/other', false],
    ['http://127.0.0.1:80@evil.example.com/cb', false],
    ['http://127.0.0.1.evil.example.com/cb', false],
    ['https://127.0.0.1:51004/cb', false],
    ['http://127.0.0.1:65535/cb', true],
    ['http://127.0.0.1:65536/cb', false],
    ['http://127.0.0.1:99999/cb', false],
    ['http://127.0.0.1:0/cb', false],
    ['http://127.0.0.1:00080/cb', false],
    ['com.example.app:/cb', true],
    ['com.example.app:/cb2', false],
  ])('%s: %s', async (redirectUri, isTaken) => {
    const native = await idp.client({
      redirectUris: ['http://127.0.0.1/cb', 'http://[::1]/cb', 'http://localhost:3000/cb', 'com.example.app:/cb'],
    })
    const { status } = await authorize({ redirect_uri: redirectUri }, native)
    expect(status).toBe(isTaken ? 302 : 400)
  })
})

describe('the way through sign-in (B §4 point 4)', () => {
  test('without a session it leads to sign-in with the original URL, and resumes with a code, state and iss', async () => {
    const browser = new Browser()
    const url = idp.authorizeUrl(client, { nonce: 'n'.repeat(512) })
    const first = await browser.visit(url)
    const signIn = new URL(first.location ?? '')
    expect(first.status).toBe(302)
    expect(signIn.origin + signIn.pathname).toBe(`${idp.url}/sign-in`)
    expect(signIn.searchParams.get('returnTo')).toBe(url)
    const resumed = await idp.signIn(browser, await browser.visit(signIn.href), ana)
    expect(resumed).toMatchObject({ status: 303, location: url })
    const done = new URL((await browser.visit(url)).location ?? '')
    expect(done.origin + done.pathname).toBe(REDIRECT_URI)
    expect(Object.fromEntries(done.searchParams)).toEqual({
      code: expect.stringMatching(/^[\w-]{43}$/),
      state: 'a state & more',
      iss: idp.url,
    })
  })

  test('unknown parameters, ui_locales, acr_values, display and claims are taken and ignored', async () => {
    const more = { ui_locales: 'pt', acr_values: 'x', display: 'popup', claims: '{}', foo: 'bar' }
    expect((await authorize(more)).location).toContain('/sign-in?')
  })

  test('POST leads to the same GET (303), for a POST from another site carries no session', async () => {
    const { search } = new URL(idp.authorizeUrl(client))
    const { status, headers } = await idp.send('POST /oauth2/authorize', search.slice(1), {
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect({ status, location: headers.location }).toEqual({
      status: 303,
      location: `${idp.url}/oauth2/authorize${search}`,
    })
    expect((await idp.send('POST /oauth2/authorize', {})).status).toBe(400)
    const long = await idp.send('POST /oauth2/authorize', `a=${'b'.repeat(9_000)}`, {
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(long.status).toBe(400)
  })

  test('a session is enough from then on, and prompt=none works', async () => {
    const browser = await idp.signedIn(ana)
    const { location } = await browser.visit(idp.authorizeUrl(client, { prompt: 'none' }))
    expect(new URL(location ?? '').searchParams.get('code')).toBeTruthy()
  })

  test('prompt=login asks again, once, and the new auth_time is in the token', async () => {
    const browser = await idp.signedIn(ana)
    idp.advance(60_000)
    const url = idp.authorizeUrl(client, { prompt: 'login' })
    const page = await browser.follow(await browser.visit(url), idp.url)
    expect(page.body).toContain('name="password"')
    const done = await browser.follow(await idp.signIn(browser, page, ana), idp.url)
    const code = new URL(done.location ?? '').searchParams.get('code') ?? ''
    const { body } = await idp.token(idp.codeForm(client, code))
    const { auth_time, iat } = claimsOf(body.id_token) as { auth_time: number; iat: number }
    expect(iat).toBe(auth_time)
    // The answer is used up: the very same request asks again.
    expect((await browser.visit(url)).location).toContain('/sign-in?')
  })

  test('max_age asks again once the session is older; max_age=0 always does, and does not loop', async () => {
    const browser = await idp.signedIn(ana)
    const fresh = await browser.visit(idp.authorizeUrl(client, { max_age: '120' }))
    expect(new URL(fresh.location ?? '').searchParams.get('code')).toBeTruthy()
    idp.advance(121_000)
    expect((await browser.visit(idp.authorizeUrl(client, { max_age: '120' }))).location).toContain('/sign-in?')
    const silent = await browser.visit(idp.authorizeUrl(client, { max_age: '120', prompt: 'none' }))
    expect(new URL(silent.location ?? '').searchParams.get('error')).toBe('login_required')
    const page = await browser.follow(await browser.visit(idp.authorizeUrl(client, { max_age: '0' })), idp.url)
    const done = await browser.follow(await idp.signIn(browser, page, ana), idp.url)
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
  })

  test('prompt=select_account shows who is signed in; continuing or switching leads on', async () => {
    const browser = await idp.signedIn(ana)
    const url = idp.authorizeUrl(client, { prompt: 'select_account' })
    const page = await browser.follow(await browser.visit(url), idp.url)
    expect(page.body).toContain(ana.email)
    const switched = await browser.submit(page, {}, { name: 'decision', value: 'switch' })
    expect(switched.location).toContain('/sign-in?')
    const done = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'continue' }), idp.url)
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
    expect((await browser.visit(url)).location).toContain('/choose-account?')
  })

  test('the account is chosen by a form of this site, of this session and for this request alone (CSRF)', async () => {
    const [browser, other] = await Promise.all([idp.signedIn(ana), idp.signedIn(ana)])
    const url = idp.authorizeUrl(client, { prompt: 'select_account' })
    const csrfOf = async (of: Browser, to: string) => {
      const { body } = await of.follow(await of.visit(to), idp.url)
      const [, csrf] = /name="csrf" value="([^"]+)"/.exec(body) ?? []
      if (csrf === undefined) throw new Error(`No form: ${body}`)
      return csrf
    }
    const choose = (csrf: string | undefined, headers?: Record<string, string>) => {
      const form = { ...(csrf !== undefined && { csrf }), returnTo: url, decision: 'continue' }
      return browser.visit(`${idp.url}/choose-account`, form, headers)
    }
    const ofAnotherRequest = await csrfOf(
      browser,
      idp.authorizeUrl(client, { prompt: 'select_account', state: 'another' }),
    )
    for (const csrf of [undefined, '', await csrfOf(other, url), ofAnotherRequest])
      expect((await choose(csrf)).status).toBe(403)
    const own = await csrfOf(browser, url)
    for (const origin of ['https://evil.example.com', 'null']) expect((await choose(own, { origin })).status).toBe(403)
    expect((await browser.visit(url)).location).toContain('/choose-account?')
    const done = await browser.follow(await choose(own), idp.url)
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
  })

  test('login_hint fills the form in, escaped', async () => {
    const browser = new Browser()
    const hint = '"><script>alert(1)</script>@example.com'
    const page = await browser.follow(await browser.visit(idp.authorizeUrl(client, { login_hint: hint })), idp.url)
    expect(page.body).toContain('value="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;@example.com"')
    expect(page.body).not.toContain('<script>')
  })

  test('id_token_hint of the user passes, of another one asks, and refuses silently', async () => {
    const bob = await idp.person()
    const { id_token: ofAna } = await idp.tokens(client, ana, 'openid')
    const { id_token: ofBob } = await idp.tokens(client, bob, 'openid')
    const browser = await idp.signedIn(ana)
    idp.advance(400_000) // hints may be expired
    const errorOf = async (id_token_hint: string | undefined, prompt?: string) => {
      const { location } = await browser.visit(idp.authorizeUrl(client, { id_token_hint, prompt }))
      const { pathname, searchParams } = new URL(location ?? '')
      return searchParams.get('error') ?? (searchParams.has('code') ? 'code' : pathname)
    }
    expect(await errorOf(ofAna, 'none')).toBe('code')
    expect(await errorOf(ofBob, 'none')).toBe('login_required')
    expect(await errorOf(ofBob)).toBe('/sign-in')
  })

  test('a user whom the sign-in policy of the client refuses is denied (B §5)', async () => {
    const closed = await idp.client()
    await setClientPolicy(idp.deps, { clientId: closed.id, policy: { domains: ['other.example.com'] } })
    const browser = await idp.signedIn(ana)
    const errorOf = async () =>
      new URL((await browser.visit(idp.authorizeUrl(closed))).location ?? '').searchParams.get('error')
    expect(await errorOf()).toBe('access_denied')
    await setClientPolicy(idp.deps, { clientId: closed.id, policy: { userIds: [ana.userId] } })
    expect(await errorOf()).toBeNull()
  })
})

describe('a code that is asked for while all access of the user is being ended', () => {
  test.each([
    ['leads to sign-in', undefined, '/sign-in'],
    ['is login_required where no page may be shown', 'none', 'login_required'],
  ])('is not issued: it %s', async (_, prompt, outcome) => {
    const bob = await idp.person()
    const browser = await idp.signedIn(bob)
    const [, answer] = await holding(
      idp.databaseUrl,
      (held) => held`select from sessions where user_id = ${bob.userId} for update`,
      [
        () => idp.deps.db.transaction((tx) => endAllAccess(tx, idp.now(), bob.userId)),
        () => browser.visit(idp.authorizeUrl(client, { prompt })),
      ],
    )
    const { pathname, searchParams } = new URL(answer.location ?? '')
    expect(searchParams.get('code')).toBeNull()
    expect(searchParams.get('error') ?? pathname).toBe(outcome)
  })
})

describe('consent', () => {
  const ask = async (by: TestClient, parameters: Parameters = {}) => {
    const browser = await idp.signedIn(ana)
    const first = await browser.visit(idp.authorizeUrl(by, parameters))
    return { browser, page: await browser.follow(first, idp.url) }
  }

  test('a client that is not first-party shows who it is and what it wants; allowing is remembered', async () => {
    const other = await idp.client({ isFirstParty: false, name: 'Other <b>app</b>' })
    const { browser, page } = await ask(other, { scope: 'openid offline_access network:env_vars:read' })
    expect(page.url).toContain('/consent?')
    expect(page.body).toContain('Other &lt;b&gt;app&lt;/b&gt;')
    expect(page.body).toContain('Stay connected')
    expect(page.body).toContain('Read environment variables')
    const done = await browser.submit(page, {}, { name: 'decision', value: 'approve' })
    expect(done.status).toBe(303)
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
    const codeFor = async (scope: string) =>
      new URL((await browser.visit(idp.authorizeUrl(other, { scope }))).location ?? '').searchParams.has('code')
    expect(await codeFor('openid')).toBe(true)
    expect(await codeFor('openid profile')).toBe(false)
  })

  test('denying sends access_denied to the client (B §7)', async () => {
    const { browser, page } = await ask(await idp.client({ isFirstParty: false }))
    const { location } = await browser.submit(page, {}, { name: 'decision', value: 'deny' })
    expect(Object.fromEntries(new URL(location ?? '').searchParams)).toMatchObject({
      error: 'access_denied',
      state: 'a state & more',
      iss: idp.url,
    })
  })

  test('prompt=consent asks a first-party client too, once; prompt=none is told consent_required', async () => {
    const { browser, page } = await ask(client, { prompt: 'consent' })
    const done = await browser.submit(page, {}, { name: 'decision', value: 'approve' })
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
    const other = await idp.client({ isFirstParty: false })
    const { location } = await browser.visit(idp.authorizeUrl(other, { prompt: 'none' }))
    expect(new URL(location ?? '').searchParams.get('error')).toBe('consent_required')
  })

  test.each([
    ['http://localhost:4003/cb', { isFirstParty: true }],
    ['http://localhost:3001/cb', { isFirstParty: true, kind: 'confidential' as const }],
  ])('a first-party client at %s is a web page, and asks as little as one over https (D110)', async (uri, of) => {
    const page = await idp.client({ redirectUris: [uri], ...of })
    const browser = await idp.signedIn(ana)
    const done = await browser.visit(idp.authorizeUrl(page, { redirect_uri: uri }))
    expect(done.location?.startsWith(`${uri}?code=`)).toBe(true)
    // Its port is explicit, and no other matches.
    const elsewhere = await browser.visit(idp.authorizeUrl(page, { redirect_uri: 'http://localhost:4004/cb' }))
    expect(elsewhere.status).toBe(400)
  })

  test('a public client on loopback or a custom scheme asks every time, first-party or not (RFC 8252 §8.6, D110)', async () => {
    for (const [uri, isFirstParty] of [
      ['http://127.0.0.1:4455/cb', true],
      ['http://[::1]:4455/cb', true],
      ['http://localhost/cb', true],
      ['http://localhost:4455/cb', false],
      ['com.example.app:/cb', true],
    ] as const) {
      const native = await idp.client({ redirectUris: [uri], isFirstParty })
      const { browser, page } = await ask(native, { redirect_uri: uri })
      expect(page.url).toContain('/consent?')
      const done = await browser.submit(page, {}, { name: 'decision', value: 'approve' })
      expect(done.location?.startsWith(uri)).toBe(true)
      const again = await browser.visit(idp.authorizeUrl(native, { redirect_uri: uri }))
      expect(again.location).toContain('/consent?')
    }
  })

  test('a decision without the token of this session and this request is refused', async () => {
    const other = await idp.client({ isFirstParty: false })
    const { browser, page } = await ask(other)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const returnTo = idp.authorizeUrl(other)
    const decide = (form: Record<string, string>) =>
      browser.visit(`${idp.url}/consent`, { decision: 'approve', ...form })
    expect((await decide({ returnTo })).status).toBe(403)
    expect((await decide({ returnTo: `${returnTo}&scope2=x`, csrf })).status).toBe(403)
    expect((await decide({ returnTo, csrf: 'x'.repeat(43) })).status).toBe(403)
    expect((await decide({ returnTo, csrf })).status).toBe(303)
  })

  test('the page may only lead to this site and the client (CSP form-action)', async () => {
    const { page } = await ask(await idp.client({ isFirstParty: false }))
    const csp = page.headers.get('content-security-policy')
    expect(csp).toContain("form-action 'self' https://app.example.com;")
    expect(csp).toContain("frame-ancestors 'none'")
    expect(csp).not.toContain('unsafe-inline')
    expect(page.headers.get('referrer-policy')).toBe('same-origin')
  })
})
