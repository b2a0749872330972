// engines: postgres
import { createHash } from 'node:crypto'
import { Browser } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { raceFifty } from '../../../test/race-fifty.ts'
import { decisionsOf, termsOf, words } from '../../../test/page-words.ts'
import {
  basic,
  claimsOf,
  DEVICE_GRANT,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'
import { setProductAccess } from '../accounts/accounts.ts'
import { setClientPolicy } from '../clients/clients.ts'
import { readUserCode } from './user-code.ts'

let idp: TestIdp
let client: TestClient
let narrow: TestClient
let ana: TestPerson
let networks = 0
let address = ''
beforeAll(async () => {
  idp = await startTestIdp()
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  client = await idp.client({ name: 'Command line' })
  narrow = await idp.client({ scopes: ['openid'] })
  ana = await idp.person()
})
afterAll(() => idp.close())
// Starts and guesses from one network count together: each test uses its own.
beforeEach(() => {
  networks++
  address = `172.16.${networks >> 8}.${networks & 255}`
})

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const JSON_BODY = { 'content-type': 'application/json' }
const start = (scope = 'openid offline_access', by = client) =>
  idp.send(
    'POST /oauth2/device_authorization',
    { client_id: by.id, scope },
    { ...JSON_BODY, 'x-forwarded-for': address },
  )
const poll = (device_code: string, by = client) =>
  idp.token({
    grant_type: DEVICE_GRANT,
    client_id: by.id,
    ...(by.secret ? { client_secret: by.secret } : {}),
    device_code,
  })
const signedIn = async (person = ana) => {
  const browser = new Browser({ 'x-forwarded-for': address })
  await browser.submit(await browser.visit(`${idp.url}/sign-in`), { email: person.email, password: person.password })
  return browser
}
const decide = async (userCode: string, decision: 'approve' | 'deny', browser?: Browser) => {
  const by = browser ?? (await signedIn())
  const page = await by.visit(`${idp.url}/device?user_code=${userCode}`)
  return by.submit(page, {}, { name: 'decision', value: decision })
}
const error = (name: string) => ({ status: 400, body: { error: name } })

describe('starting (B §2, §4)', () => {
  test('the response has the fields of B §2, from JSON and from a form alike (D23)', async () => {
    const form = new URLSearchParams({ client_id: client.id, scope: 'openid' }).toString()
    for (const answer of [await start(), await idp.send('POST /oauth2/device_authorization', form, FORM)]) {
      expect(answer.status).toBe(200)
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(answer.headers['access-control-allow-origin']).toBe('*')
      expect(answer.body).toEqual({
        device_code: expect.stringMatching(/^[\w-]{43}$/),
        user_code: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$/),
        verification_uri: `${idp.url}/device`,
        verification_uri_complete: `${idp.url}/device?user_code=${answer.body.user_code}`,
        expires_in: 600,
        interval: 5,
      })
    }
  })

  test.each([
    ['no client_id', { scope: 'openid' }, 400, 'invalid_request'],
    ['an unknown client', { client_id: 'x', scope: 'openid' }, 401, 'invalid_client'],
    ['no scope', { client_id: 'CLIENT' }, 400, 'invalid_scope'],
    ['an unknown scope', { client_id: 'CLIENT', scope: 'nope' }, 400, 'invalid_scope'],
    [
      'a scope that the client may not have (D70)',
      { client_id: 'NARROW', scope: 'openid email' },
      400,
      'invalid_scope',
    ],
    [
      'a secret of a public client (D11)',
      { client_id: 'CLIENT', client_secret: 'x', scope: 'openid' },
      401,
      'invalid_client',
    ],
    ['a NUL', { client_id: 'CLIENT', scope: 'openid\0' }, 400, 'invalid_request'],
  ])('%s is refused', async (_, body: Record<string, string>, status, name) => {
    const ids: Record<string, string> = { CLIENT: client.id, NARROW: narrow.id }
    const sent = { ...body, ...(body.client_id ? { client_id: ids[body.client_id] ?? body.client_id } : {}) }
    const answer = await idp.send('POST /oauth2/device_authorization', sent, JSON_BODY)
    expect({ status: answer.status, error: answer.body.error }).toEqual({ status, error: name })
  })

  test('members of the JSON that nobody knows are ignored, of whatever type (D52)', async () => {
    const body = { client_id: client.id, scope: 'openid', audience: ['x'], more: { a: null }, device: 1 }
    expect((await idp.send('POST /oauth2/device_authorization', body, JSON_BODY)).status).toBe(200)
  })

  test('broken JSON, JSON that is no object, other encodings and a body too large are invalid_request (D23, D52)', async () => {
    for (const [body, type] of [
      ['{', 'application/json'],
      ['[]', 'application/json'],
      ['null', 'application/json'],
      ['x', 'text/plain'],
      [JSON.stringify({ client_id: 'x'.repeat(70_000) }), 'application/json'],
    ] as const) {
      const answer = await idp.send('POST /oauth2/device_authorization', body, { 'content-type': type })
      expect(answer).toMatchObject(error('invalid_request'))
    }
  })

  test('a confidential client needs its id alone, but a secret that it sends is checked (D11)', async () => {
    const server = await idp.client({ kind: 'confidential' })
    const body = { client_id: server.id, scope: 'openid' }
    const from = (headers: Record<string, string>) =>
      idp.send('POST /oauth2/device_authorization', body, { ...JSON_BODY, ...headers })
    expect((await from({})).status).toBe(200)
    expect((await from({ authorization: basic(server.id, server.secret ?? '') })).status).toBe(200)
    expect((await from({ authorization: basic(server.id, 'wrong') })).status).toBe(401)
    // Basic wins over the body here as well.
    const started = await from({ authorization: basic(client.id, '') })
    expect(await poll(started.body.device_code, client)).toMatchObject(error('authorization_pending'))
  })

  test('a client without the grant is unauthorized_client', async () => {
    expect(await start('openid', await idp.client({ grants: ['authorization_code'] }))).toMatchObject(
      error('unauthorized_client'),
    )
  })

  test('30 a minute for a client and an address, then 429 with Retry-After (B §8, D57)', async () => {
    const own = await idp.client()
    for (let i = 0; i < 30; i++) expect((await start('openid', own)).status).toBe(200)
    const over = await start('openid', own)
    expect(over).toMatchObject({ status: 429, body: { error: 'rate_limit_exceeded' } })
    expect(over.headers['retry-after']).toBe('60')
    expect((await start('openid', client)).status).toBe(200)
    const before = address
    address = '172.31.255.1'
    expect((await start('openid', own)).status).toBe(200)
    address = before
    idp.advance(61_000)
    expect((await start('openid', own)).status).toBe(200)
  })
})

describe('polling (B §3, RFC 8628 §3.5, D64)', () => {
  test('pending, slow_down with 5 s more each time, and the first poll is free', async () => {
    const { device_code } = (await start()).body
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
    expect(await poll(device_code)).toMatchObject(error('slow_down')) // the interval is 10 s now
    idp.advance(6_000)
    expect(await poll(device_code)).toMatchObject(error('slow_down')) // 15 s
    idp.advance(15_000)
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
    idp.advance(15_000)
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
  })

  test('approved: tokens for who approved it, at once however fast it polls, and once', async () => {
    const { device_code, user_code } = (await start()).body
    await poll(device_code)
    await poll(device_code)
    expect((await decide(user_code, 'approve')).body).toContain('Device connected')
    expect(await poll(device_code, await idp.client())).toMatchObject(error('invalid_grant')) // another client (D64)
    const { status, body, headers } = await poll(device_code)
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(claimsOf(body.access_token)).toMatchObject({
      sub: ana.userId,
      client_id: client.id,
      scope: 'openid offline_access',
    })
    expect(claimsOf(body.id_token)).not.toHaveProperty('nonce')
    expect(body.refresh_token).toMatch(/^v1\./)
    expect(await poll(device_code)).toMatchObject(error('invalid_grant'))
    const refreshed = await idp.token({
      grant_type: 'refresh_token',
      client_id: client.id,
      refresh_token: body.refresh_token,
    })
    expect(refreshed.status).toBe(200)
  })

  test('denied: access_denied, again and again', async () => {
    const { device_code, user_code } = (await start()).body
    expect((await decide(user_code, 'deny')).body).toContain('Request denied')
    for (let i = 0; i < 3; i++) expect(await poll(device_code)).toMatchObject(error('access_denied'))
  })

  test('after 600 s: expired_token, for a day, approved or not', async () => {
    const [open, approved] = [(await start()).body, (await start()).body]
    await decide(approved.user_code, 'approve')
    idp.advance(599_000)
    expect(await poll(open.device_code)).toMatchObject(error('authorization_pending'))
    idp.advance(2_000)
    for (const { device_code } of [open, approved])
      expect(await poll(device_code)).toMatchObject(error('expired_token'))
    const { discardExpired } = await import('../../roles/housekeeping.ts')
    idp.advance(86_000_000)
    await discardExpired(idp.deps)
    expect(await poll(open.device_code)).toMatchObject(error('expired_token'))
    idp.advance(2_000_000)
    await discardExpired(idp.deps)
    expect(await poll(open.device_code)).toMatchObject(error('invalid_grant'))
  })

  test('an unknown code, and one of another client, is invalid_grant; none at all is invalid_request', async () => {
    const { device_code } = (await start()).body
    expect(await poll('x'.repeat(43))).toMatchObject(error('invalid_grant'))
    expect(await poll(device_code, await idp.client())).toMatchObject(error('invalid_grant'))
    expect(await poll('')).toMatchObject(error('invalid_request'))
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
  })

  test('a confidential client authenticates at the token endpoint', async () => {
    const server = await idp.client({ kind: 'confidential' })
    const { device_code } = (await start('openid', server)).body
    expect(await poll(device_code, { id: server.id, secret: undefined })).toMatchObject({ status: 401 })
    expect(await poll(device_code, server)).toMatchObject(error('authorization_pending'))
  })

  test('of fifty polls at once of an approved code, one wins', async () => {
    const { device_code, user_code } = (await start()).body
    await decide(user_code, 'approve')
    const codeHash = createHash('sha256')
      .update(device_code as string)
      .digest()
    const answers = await raceFifty(
      idp,
      (sql) => sql`select from device_authorizations where device_code_hash = ${codeHash} for update`,
      () => poll(device_code),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(new Set(answers.filter(({ status }) => status !== 200).map(({ body }) => body.error))).toEqual(
      new Set(['invalid_grant']),
    )
  })

  test('of a hundred polls at once of a pending code, one is on time', async () => {
    const { device_code } = (await start()).body
    const answers = await Promise.all(Array.from({ length: 100 }, () => poll(device_code)))
    const counts = answers.map(({ body }) => body.error as string)
    expect(counts.filter((name) => name === 'authorization_pending')).toHaveLength(1)
    expect(counts.filter((name) => name === 'slow_down')).toHaveLength(99)
  })

  test('a withdrawn product, a policy or a suspended account refuses what was approved (D60); nothing is consumed', async () => {
    const own = await idp.client({ requiredProduct: 'ai-gateway' })
    const bob = await idp.person()
    const { device_code, user_code } = (await start('openid', own)).body
    await decide(user_code, 'approve', await signedIn(bob))
    const denied = (reason: string) => ({
      status: 400,
      body: {
        error: 'invalid_request',
        error_description: expect.stringMatching(new RegExp(`^access_denied: .*${reason}`)),
      },
    })
    await setProductAccess(idp.deps, { userId: bob.userId, product: 'ai-gateway', hasAccess: false })
    expect(await poll(device_code, own)).toMatchObject(denied('ai-gateway'))
    await setProductAccess(idp.deps, { userId: bob.userId, product: 'ai-gateway', hasAccess: true })
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { userIds: [ana.userId] } })
    expect(await poll(device_code, own)).toMatchObject(denied('policy'))
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { userIds: [bob.userId] } })
    const later = (await start('openid', own)).body
    await decide(later.user_code, 'approve', await signedIn(bob))
    expect((await poll(device_code, own)).status).toBe(200)
    await suspendUser(idp.deps, bob.userId)
    expect(await poll(later.device_code, own)).toMatchObject(denied('suspended'))
  })
})

describe('approval', () => {
  test('the complete URI leads through sign-in and keeps its code; the page says who asks, from where, for what', async () => {
    const { verification_uri_complete, user_code } = (await start('openid network:env_vars:read')).body
    const browser = new Browser({ 'x-forwarded-for': address })
    const form = await browser.follow(await browser.visit(verification_uri_complete), idp.url)
    const signed = await browser.submit(form, { email: ana.email, password: ana.password })
    expect(signed.location).toBe(verification_uri_complete)
    const page = await browser.visit(verification_uri_complete)
    for (const text of ['Command line', user_code, address, 'Read environment variables', ana.email])
      expect(page.body).toContain(text)
  })

  describe('tells who asks, from where, with what and since when (RFC 8628 §5.4)', () => {
    const WARNING = 'started from another network'
    /** The page shown at `here` for a device that made its request from `there`. */
    const seen = async (here: string, there: string, headers: Record<string, string> = {}, by = client) => {
      const form = { client_id: by.id, scope: 'openid' }
      const from = { ...JSON_BODY, 'x-forwarded-for': there, ...headers }
      const { body } = await idp.send('POST /oauth2/device_authorization', form, from)
      const browser = new Browser({ 'x-forwarded-for': here })
      await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), ana)
      return async (more: Record<string, string> = {}) =>
        (await browser.visit(body.verification_uri_complete as string, undefined, more)).body
    }

    test('client, requester, address, program and time, all of them as text', async () => {
      const by = await idp.client({ name: '<i>Tool</i>', requester: 'Smith & Sons' })
      const look = await seen(address, address, { 'user-agent': `tool/2.1 <b>${'x'.repeat(1_000)}` }, by)
      expect(termsOf(await look())).toEqual({
        Application: '&lt;i&gt;Tool&lt;/i&gt;',
        'Made for': 'Smith &amp; Sons',
        'Started from': address,
        'Started with': 'tool, as it says itself',
        Started: 'just now',
        'Your account': ana.email,
      })
      expect(await look()).toContain('title="tool/2.1 &lt;b&gt;xxx')
      expect(await look()).not.toContain('x'.repeat(512))
      idp.advance(60_000)
      expect(termsOf(await look()).Started).toBe('1 minute ago')
      idp.advance(240_000)
      expect(termsOf(await look()).Started).toBe('5 minutes ago')
    })

    test('a device that does not say what it is has no such line', async () => {
      const look = await seen(address, address, { 'user-agent': '' })
      expect(Object.keys(termsOf(await look()))).toEqual(['Application', 'Started from', 'Started', 'Your account'])
    })

    test('the same network is no reason for a warning: the same IPv4 address, or the same /64 of IPv6', async () => {
      for (const [here, there] of [
        [address, address],
        [address, `::ffff:${address}`],
        ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2'],
      ] as const)
        expect(await (await seen(here, there))()).not.toContain(WARNING)
    })

    test('another network is one, before the buttons, with both addresses', async () => {
      for (const [here, there, shownHere, shownThere] of [
        [address, '203.0.113.9', address, '203.0.113.9'],
        ['2001:db8:0:2::1', '2001:db8:0:3::1', '2001:db8:0:2::/64', '2001:db8:0:3::/64'],
      ] as const) {
        const body = await (await seen(here, there))()
        const warning = words(body.slice(body.indexOf('<div class="alert warn">'), body.indexOf('name="decision"')))
        expect(warning).toContain(`${WARNING} than yours: from ${shownThere}, and you are at ${shownHere}.`)
        expect(warning).toContain('If someone sent you this code or link, deny.')
        expect(warning).not.toContain('IPv4')
      }
      expect(words(await (await seen(address, '2001:db8:0:4::1'))())).toContain('different ways (IPv4 and IPv6)')
    })

    test('the page warns where a link on another site led here, and not where one of this site did or none', async () => {
      const look = await seen(address, address)
      const body = await look({ 'sec-fetch-site': 'cross-site' })
      const warning = words(body.slice(body.indexOf('<div class="alert warn">'), body.indexOf('name="decision"')))
      expect(warning).toMatch(/^A link on another site led here\. If someone sent it to you, deny\./)
      for (const site of ['same-origin', 'same-site', 'none'])
        expect(await look({ 'sec-fetch-site': site })).not.toContain('class="alert')
    })

    test('the page warns of such a link too where sign-in came in between', async () => {
      const { body } = await idp.send(
        'POST /oauth2/device_authorization',
        { client_id: client.id, scope: 'openid' },
        JSON_BODY,
      )
      const browser = new Browser()
      const first = await browser.visit(body.verification_uri_complete as string, undefined, {
        'sec-fetch-site': 'cross-site',
      })
      const form = await browser.follow(first, idp.url)
      const signed = await idp.signIn(browser, form, ana)
      const page = await browser.visit(signed.location ?? '', undefined, { 'sec-fetch-site': 'same-origin' })
      expect(page.body).toContain('name="decision"')
      expect(page.body).toContain('A link on another site led here.')
    })

    test.each<[string, string, (of: TestClient) => Record<string, string>, boolean]>([
      ['a confidential client that sent its id alone', 'confidential', () => ({}), true],
      [
        'a confidential client that sent its secret',
        'confidential',
        ({ id, secret = '' }) => ({ authorization: basic(id, secret) }),
        false,
      ],
      ['a public client', 'public', () => ({}), false],
    ])(
      'the page for %s says whether it did not prove that it asked (RFC 8628 §3.1, D11)',
      async (_, kind, proof, isWarned) => {
        const by = await idp.client({ name: 'Back & office', kind: kind as 'public' })
        const body = await (await seen(address, address, proof(by), by))()
        const sentence =
          'Back &amp; office did not prove that it sent this request. Allow it only if you started it yourself, on a device in front of you.'
        expect(words(body).includes(sentence)).toBe(isWarned)
        expect(body.includes('class="alert')).toBe(isWarned)
        expect(decisionsOf(body).map(({ isQuiet }) => isQuiet)).toEqual([isWarned, !isWarned])
      },
    )

    test('Allow comes before Deny; Deny is filled where the page warns, Allow where it does not', async () => {
      const plain = [
        { text: 'Allow', decision: 'approve', isQuiet: false },
        { text: 'Deny', decision: 'deny', isQuiet: true },
      ]
      const warned = [
        { text: 'Allow', decision: 'approve', isQuiet: true },
        { text: 'Deny', decision: 'deny', isQuiet: false },
      ]
      const [near, far] = [await seen(address, address), await seen(address, '203.0.113.10')]
      const crossSite = { 'sec-fetch-site': 'cross-site' }
      expect(decisionsOf(await near())).toEqual(plain)
      expect(decisionsOf(await near(crossSite))).toEqual(warned)
      expect(decisionsOf(await far())).toEqual(warned)
      expect(decisionsOf(await far(crossSite))).toEqual(warned)
    })

    test('nothing on the page has the focus or is chosen beforehand, and no field sends a decision by Enter', async () => {
      for (const there of [address, '203.0.113.11']) {
        const body = await (await seen(address, there))()
        expect(body).toContain('name="decision"')
        expect(body).not.toMatch(/<[^>]*\s(?:autofocus|checked|selected)\b/)
        expect(body).not.toMatch(/<(?:select|textarea|input(?! type="hidden"))\b/)
      }
    })

    test('whoever is no trusted proxy cannot say that they come from the network of their victim', async () => {
      const other = await startTestIdp({ TRUSTED_PROXIES: '10.0.0.0/8' })
      onTestFinished(() => other.close())
      const form = { client_id: (await other.client()).id, scope: 'openid' }
      const forged = { ...JSON_BODY, 'x-forwarded-for': address }
      const { body } = await other.send('POST /oauth2/device_authorization', form, forged)
      const browser = await other.signedIn(await other.person())
      const page = await browser.visit(body.verification_uri_complete as string)
      expect(termsOf(page.body)['Started from']).toMatch(/^(?:127\.0\.0\.1|0:0:0:0::\/64)$/)
    })
  })

  test('looking approves nothing, however the code comes', async () => {
    const { verification_uri_complete, device_code } = (await start()).body
    const browser = await signedIn()
    await browser.visit(verification_uri_complete)
    await browser.visit(`${verification_uri_complete}&decision=approve`)
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
  })

  test('without the token of this session and this code a decision is refused', async () => {
    const [mine, other] = [(await start()).body, (await start()).body]
    const browser = await signedIn()
    const page = await browser.visit(mine.verification_uri_complete)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const post = (form: Record<string, string>) =>
      browser.visit(`${idp.url}/device/decision`, { decision: 'approve', ...form })
    expect((await post({ user_code: mine.user_code })).status).toBe(403)
    expect((await post({ user_code: other.user_code, csrf })).status).toBe(403)
    const elsewhere = await (
      await signedIn()
    ).visit(`${idp.url}/device/decision`, { decision: 'approve', user_code: mine.user_code, csrf })
    expect(elsewhere.status).toBe(403)
    const nobody = await new Browser().visit(`${idp.url}/device/decision`, {
      decision: 'approve',
      user_code: mine.user_code,
      csrf,
    })
    expect(nobody.location).toContain('/sign-in?')
    expect(await poll(mine.device_code)).toMatchObject(error('authorization_pending'))
    expect((await post({ user_code: mine.user_code, csrf })).status).toBe(200)
  })

  test('anything but approve is a denial', async () => {
    const { device_code, verification_uri_complete } = (await start()).body
    const browser = await signedIn()
    const page = await browser.visit(verification_uri_complete)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const user_code = new URL(verification_uri_complete).searchParams.get('user_code') ?? ''
    await browser.visit(`${idp.url}/device/decision`, { user_code, csrf, decision: 'APPROVE' })
    expect(await poll(device_code)).toMatchObject(error('access_denied'))
  })

  test('the first decision stands', async () => {
    const { device_code, user_code } = (await start()).body
    const [here, there] = [await signedIn(), await signedIn()]
    const page = await there.visit(`${idp.url}/device?user_code=${user_code}`)
    await decide(user_code, 'deny', here)
    const late = await there.submit(page, {}, { name: 'decision', value: 'approve' })
    expect(late.status).toBe(400)
    expect(await poll(device_code)).toMatchObject(error('access_denied'))
  })

  test('of two decisions at the same time the first stands', async () => {
    const { device_code, user_code } = (await start()).body
    const [here, there] = [await signedIn(), await signedIn()]
    const submit = async (browser: Browser, value: string) => {
      const page = await browser.visit(`${idp.url}/device?user_code=${user_code}`)
      return () => browser.submit(page, {}, { name: 'decision', value })
    }
    const decisions = [await submit(here, 'deny'), await submit(there, 'approve')]
    const answers = await holding(
      idp.databaseUrl,
      (sql) => sql`select from device_authorizations where user_code = ${readUserCode(user_code) ?? ''} for update`,
      decisions,
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 400])
    expect(await poll(device_code)).toMatchObject(error('access_denied'))
  })

  test('a session that ends while it approves approves nothing', async () => {
    const { device_code, user_code } = (await start()).body
    const bob = await idp.person()
    const browser = await signedIn(bob)
    const page = await browser.visit(`${idp.url}/device?user_code=${user_code}`)
    const [answer] = await holding(idp.databaseUrl, (sql) => sql`delete from sessions where user_id = ${bob.userId}`, [
      () => browser.submit(page, {}, { name: 'decision', value: 'approve' }),
    ])
    expect(answer.location?.split('?')[0]).toBe(`${idp.url}/sign-in`)
    expect(await poll(device_code)).toMatchObject(error('authorization_pending'))
  })

  test('an expired code cannot be approved', async () => {
    const { user_code } = (await start()).body
    const browser = await signedIn()
    idp.advance(601_000)
    expect((await browser.visit(`${idp.url}/device?user_code=${user_code}`)).body).toContain('its time is over')
  })

  test('codes are read in any case, with or without hyphen, O as 0, I and L as 1 (D65)', () => {
    expect(readUserCode('abcd-efgh')).toBe('ABCDEFGH')
    expect(readUserCode(' abcd efgh ')).toBe('ABCDEFGH')
    expect(readUserCode('ABCD–EFGH')).toBe('ABCDEFGH')
    expect(readUserCode('oO01-iIlL')).toBe('00011111'.slice(0, 4) + '1111')
    for (const bad of ['ABCD-EFG', 'ABCD-EFGHJ', 'ABCD-EFGU', '', 'ABCD_EFGH', 'ABCD-EFG\0'])
      expect(readUserCode(bad)).toBeUndefined()
  })

  test('a code typed sloppily finds its device', async () => {
    const { user_code } = (await start()).body
    const sloppy = (user_code as string).toLowerCase().replace('-', ' ').replaceAll('0', 'o').replaceAll('1', 'l')
    const page = await (await signedIn()).visit(`${idp.url}/device?user_code=${encodeURIComponent(sloppy)}`)
    expect(page.body).toContain(user_code)
  })

  test('five wrong codes in ten minutes, and an account has to wait; right ones do not count', async () => {
    const bob = await idp.person()
    const browser = await signedIn(bob)
    const look = (code: string) => browser.visit(`${idp.url}/device?user_code=${code}`)
    for (let i = 0; i < 8; i++) expect((await look((await start()).body.user_code)).status).toBe(200)
    for (let i = 0; i < 5; i++) expect((await look(`0000-000${i}`)).status).toBe(400)
    const refused = await look('0000-0005')
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('600')
    expect(refused.body).toContain('Wait 10 minutes')
    expect((await look((await start()).body.user_code)).status).toBe(429)
    idp.advance(601_000)
    expect((await look((await start()).body.user_code)).status).toBe(200)
  })

  test('twenty wrong codes from one network, whoever signs in there', async () => {
    for (let account = 0; account < 4; account++) {
      const browser = await signedIn(await idp.person())
      for (let i = 0; i < 5; i++)
        expect((await browser.visit(`${idp.url}/device?user_code=0000-000${i}`)).status).toBe(400)
    }
    const page = await (await signedIn(await idp.person())).visit(`${idp.url}/device?user_code=0000-0009`)
    expect(page.status).toBe(429)
  })

  test('a user whom the policy of the client refuses cannot approve (B §5)', async () => {
    const closed = await idp.client()
    await setClientPolicy(idp.deps, { clientId: closed.id, policy: { domains: ['other.example.com'] } })
    const { device_code, user_code } = (await start('openid', closed)).body
    expect((await decide(user_code, 'approve')).status).toBe(403)
    expect(await poll(device_code, closed)).toMatchObject(error('authorization_pending'))
  })
})
