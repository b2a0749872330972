import type { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claimsOf, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { disableClient } from '../access/disable-client.ts'

const AFTER = 'https://app.example.com/bye'
const AFTER_WITH_QUERY = 'https://app.example.com/bye?from=platform'

let idp: TestIdp
let client: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client({ name: 'Notes', postLogoutRedirectUris: [AFTER, AFTER_WITH_QUERY] })
  ana = await idp.person()
})
afterAll(() => idp.close())

type Parameters = Record<string, string>
const queryOf = (parameters: Parameters) => `?${new URLSearchParams(parameters).toString()}`
const logoutUrl = (parameters: Parameters = {}) => `${idp.url}/oauth2/logout${queryOf(parameters)}`
const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200

/** A signed-in browser, and the ID token that the client received there. */
async function withIdToken(person = ana, by = client): Promise<{ browser: Browser; idToken: string }> {
  const browser = await idp.signedIn(person)
  const { location } = await browser.follow(await browser.visit(idp.authorizeUrl(by)), idp.url)
  const code = new URL(location ?? '').searchParams.get('code') ?? ''
  const { body } = await idp.token(idp.codeForm(by, code))
  return { browser, idToken: body.id_token as string }
}

describe('with an ID token of this session nobody is asked (RP-Initiated Logout §2)', () => {
  test('the session ends, and the browser goes to the registered URI with the state', async () => {
    const { browser, idToken } = await withIdToken()
    const state = 'a state & more'
    const done = await browser.visit(
      logoutUrl({ id_token_hint: idToken, client_id: client.id, post_logout_redirect_uri: AFTER, state }),
    )
    expect(done.status).toBe(302)
    expect(done.headers.get('referrer-policy')).toBe('no-referrer')
    expect(done.headers.get('cache-control')).toBe('no-store')
    expect(done.location).toBe(`${AFTER}${queryOf({ state })}`)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('a URI with a query keeps it; without a state nothing is added', async () => {
    const [first, second] = [await withIdToken(), await withIdToken()]
    const uri = { post_logout_redirect_uri: AFTER_WITH_QUERY }
    const withState = await first.browser.visit(logoutUrl({ id_token_hint: first.idToken, ...uri, state: 's' }))
    expect(withState.location).toBe(`${AFTER_WITH_QUERY}&state=s`)
    const without = await second.browser.visit(logoutUrl({ id_token_hint: second.idToken, ...uri }))
    expect(without.location).toBe(AFTER_WITH_QUERY)
  })

  test('without a URI the browser stays here; what is not supported is ignored', async () => {
    const { browser, idToken } = await withIdToken()
    const done = await browser.visit(
      logoutUrl({ id_token_hint: idToken, state: 's', logout_hint: ana.email, ui_locales: 'pt', nope: 'x' }),
    )
    expect(done.status).toBe(200)
    expect(done.body).toContain('You are signed out')
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('the token may have expired, and its key may be retired', async () => {
    const { browser, idToken } = await withIdToken()
    idp.advance(3_600_000)
    await idp.deps.keySet.rotateNow()
    const { body } = await idp.send('GET /.well-known/jwks.json')
    expect(body.keys).toHaveLength(1)
    const done = await browser.visit(logoutUrl({ id_token_hint: idToken, post_logout_redirect_uri: AFTER }))
    expect(done.location).toBe(AFTER)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('other browsers of the user and what clients hold go on', async () => {
    const { browser, idToken } = await withIdToken()
    const [other, tokens] = [await idp.signedIn(ana), await idp.tokens(client, ana)]
    await browser.visit(logoutUrl({ id_token_hint: idToken }))
    expect(await isSignedIn(other)).toBe(true)
    const refresh = { grant_type: 'refresh_token', client_id: client.id, refresh_token: tokens.refresh_token ?? '' }
    expect((await idp.token(refresh)).status).toBe(200)
  })

  test('a POST of another site becomes the same GET, since it carries no session', async () => {
    const { browser, idToken } = await withIdToken()
    const form = { id_token_hint: idToken, post_logout_redirect_uri: AFTER, state: 'a b' }
    const { status, headers } = await idp.send('POST /oauth2/logout', new URLSearchParams(form).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
      origin: 'https://app.example.com',
      'sec-fetch-site': 'cross-site',
    })
    expect({ status, location: headers.location }).toEqual({ status: 303, location: logoutUrl(form) })
    expect((await browser.visit(headers.location ?? '')).location).toBe(`${AFTER}?state=a+b`)
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('otherwise it takes a click', () => {
  test.each<[string, () => Promise<Parameters>]>([
    ['nothing but the visit', async () => ({})],
    ['a client_id', async () => ({ client_id: client.id })],
    ["another session's ID token of the same user", async () => ({ id_token_hint: (await withIdToken()).idToken })],
    [
      "another user's ID token",
      async () => ({ id_token_hint: (await withIdToken(await idp.person())).idToken, post_logout_redirect_uri: AFTER }),
    ],
  ])('after %s', async (_, parametersOf) => {
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(logoutUrl(await parametersOf()))
    expect(page).toMatchObject({ status: 200, location: undefined })
    expect(page.body).toContain('Sign out?')
    expect(page.body).toContain(ana.email)
    expect(await isSignedIn(browser)).toBe(true)
    expect((await browser.submit(page, {})).status).toBeLessThan(400)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('the click leads to the client that asked, which the page names and lets the browser go to', async () => {
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(
      logoutUrl({ client_id: client.id.toUpperCase(), post_logout_redirect_uri: AFTER, state: 's' }),
    )
    expect(page.body).toContain('Notes')
    expect(page.headers.get('content-security-policy')).toContain("form-action 'self' https://app.example.com;")
    const done = await browser.submit(page, {})
    expect(done).toMatchObject({ status: 303, location: `${AFTER}?state=s` })
    expect(await isSignedIn(browser)).toBe(false)
    // A second click on the old page has nothing left to do.
    expect(await browser.submit(page, {})).toMatchObject({ status: 303, location: `${AFTER}?state=s` })
  })

  test('the form is good for this request only, and only here (CSRF)', async () => {
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(logoutUrl())
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const other = queryOf({ client_id: client.id, post_logout_redirect_uri: AFTER })
    for (const form of [
      { csrf, request: other },
      { csrf: 'x', request: '' },
      { csrf: '', request: '' },
    ])
      expect(await browser.visit(`${idp.url}/sign-out`, form)).toMatchObject({ status: 403, location: undefined })
    expect(await isSignedIn(browser)).toBe(true)
  })
})

test('without a session there is nobody to ask: the browser goes where the client registered', async () => {
  const { browser, idToken } = await withIdToken()
  await browser.visit(logoutUrl({ id_token_hint: idToken }))
  const again = logoutUrl({ id_token_hint: idToken, post_logout_redirect_uri: AFTER, state: 's' })
  expect((await browser.visit(again)).location).toBe(`${AFTER}?state=s`)
  expect((await browser.visit(logoutUrl())).body).toContain('You are signed out')
})

describe('what is wrong is a page: no session ends and nothing leads away (RP-Initiated Logout §3, §4)', () => {
  const evil = 'https://evil.example.com/'
  const accessToken = async () => (await idp.tokens(client, ana)).access_token ?? ''
  test.each<[string, (idToken: string) => Parameters | Promise<Parameters>]>([
    ['a URI that is not registered', (hint) => ({ id_token_hint: hint, post_logout_redirect_uri: evil })],
    ['a URI with more path', (hint) => ({ id_token_hint: hint, post_logout_redirect_uri: `${AFTER}/x` })],
    ['a URI in other case', (hint) => ({ id_token_hint: hint, post_logout_redirect_uri: AFTER.toUpperCase() })],
    [
      'a redirect URI of sign-in',
      (hint) => ({ id_token_hint: hint, post_logout_redirect_uri: 'https://app.example.com/callback' }),
    ],
    ['a URI without a client', () => ({ post_logout_redirect_uri: AFTER })],
    [
      "another client's URI",
      async (hint) => {
        const other = await idp.client({ postLogoutRedirectUris: [evil] })
        return { id_token_hint: hint, client_id: other.id, post_logout_redirect_uri: evil }
      },
    ],
    [
      'another client than the token was for',
      async (hint) => ({ id_token_hint: hint, client_id: (await idp.client()).id }),
    ],
    ['an unknown client', () => ({ client_id: '00000000-0000-4000-8000-000000000000' })],
    ['a client_id that is no UUID', () => ({ client_id: "' or 1=1 --", post_logout_redirect_uri: AFTER })],
    ['a hint that is no token', () => ({ id_token_hint: 'x', post_logout_redirect_uri: AFTER, client_id: client.id })],
    ['a hint that was changed', (hint) => ({ id_token_hint: hint.replace(/\.[\w-]{5}/, '.xxxxx') })],
    ['an access token as the hint', async () => ({ id_token_hint: await accessToken() })],
    ['a state with NUL', (hint) => ({ id_token_hint: hint, post_logout_redirect_uri: AFTER, state: 'a\0' })],
  ])('%s', async (_, parametersOf) => {
    const { browser, idToken } = await withIdToken()
    const refused = await browser.visit(logoutUrl(await parametersOf(idToken)))
    expect(refused).toMatchObject({ status: 400, location: undefined })
    expect(refused.headers.get('content-type')).toMatch(/^text\/html/)
    expect(refused.body).not.toContain(evil)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('a parameter that is sent twice', async () => {
    const { browser, idToken } = await withIdToken()
    const url = logoutUrl({ id_token_hint: idToken, post_logout_redirect_uri: AFTER })
    const refused = await browser.visit(`${url}&post_logout_redirect_uri=${encodeURIComponent(AFTER)}`)
    expect(refused).toMatchObject({ status: 400, location: undefined })
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('the URI of a client that was disabled', async () => {
    const gone = await idp.client({ postLogoutRedirectUris: [AFTER] })
    const { browser, idToken } = await withIdToken(ana, gone)
    await disableClient(idp.deps, gone.id)
    const refused = await browser.visit(logoutUrl({ id_token_hint: idToken, post_logout_redirect_uri: AFTER }))
    expect(refused).toMatchObject({ status: 400, location: undefined })
    // Its user can still sign out.
    await browser.visit(logoutUrl({ id_token_hint: idToken }))
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('an ID token of another issuer with the same claims', async () => {
    const other = await startTestIdp()
    try {
      const { browser, idToken } = await withIdToken()
      const { iss: _, ...claims } = claimsOf(idToken)
      const forged = other.deps.keySet.sign('JWT', { ...claims, iss: idp.url })
      expect((await browser.visit(logoutUrl({ id_token_hint: forged }))).status).toBe(400)
      expect(await isSignedIn(browser)).toBe(true)
    } finally {
      await other.close()
    }
  })
})
