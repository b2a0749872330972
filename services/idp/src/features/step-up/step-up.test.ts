// engines: postgres
import { Browser, type Visit } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { sql } from 'drizzle-orm'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import {
  claimsOf,
  DEVICE_GRANT,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { endSessionOf } from '../access/end-access.ts'
import { setClientPolicy } from '../clients/clients.ts'

const STEP_MS = 30_000
const MINUTE_MS = 60_000

let idp: TestIdp
/** A client that requires a second factor. */
let strict: TestClient
let open: TestClient
beforeAll(async () => {
  idp = await startTestIdp()
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  strict = await idp.client({ name: 'Strict application' })
  await setClientPolicy(idp.deps, { clientId: strict.id, policy: { requiresSecondFactor: true } })
  open = await idp.client()
})
afterAll(() => idp.close())

interface Enrolled {
  person: TestPerson
  /** Signed in by password before a second factor existed. */
  browser: Browser
  /** The cookie of that browser, in request format. */
  cookie: string
  secret: Uint8Array
  recoveryCodes: string[]
}

const secretOn = (page: Visit): Uint8Array =>
  base32.decode((/class="secret">([^<]+)</.exec(page.body)?.[1] ?? '').replaceAll(' ', ''), { strict: false })
const codeOf = (secret: Uint8Array) => generateHOTP(secret, Math.floor(idp.now().getTime() / STEP_MS))
const field = (on: Visit, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(on.body)?.[1] ?? ''

/** A user who set up an app in one browser while another was signed in by password alone. */
async function withApp(): Promise<Enrolled> {
  const person = await idp.person()
  const browser = new Browser()
  const signedIn = await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
  const cookie = signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const other = await idp.signedIn(person)
  const page = await other.visit(`${idp.url}/authenticator/add`)
  const secret = secretOn(page)
  const done = await other.submit(page, { code: await codeOf(secret) })
  // To the start of a step whose code is unused.
  idp.advance(2 * STEP_MS - (idp.now().getTime() % STEP_MS))
  return {
    person,
    browser,
    cookie,
    secret,
    recoveryCodes: [...done.body.matchAll(/<li>([0-9A-Z-]{19})</g)].map(([, c = '']) => c),
  }
}

async function withPasskey(options: { isSynced?: boolean } = {}) {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const other = await idp.signedIn(person)
  const authenticator = new SoftAuthenticator(idp.url, options)
  const page = await other.visit(`${idp.url}/passkeys/add`)
  await other.submit(page, { credential: authenticator.create(passkeyOptionsOn(page)) })
  return { person, browser, authenticator }
}

const ask = async (browser: Browser, client: TestClient, parameters: Record<string, string> = {}) =>
  browser.follow(await browser.visit(idp.authorizeUrl(client, parameters)), idp.url)
const answerOf = (visit: Visit) => new URL(visit.location ?? 'x:').searchParams
/** The claims of the ID token for the code at the end of a flow. */
async function claimsAt(visit: Visit, client: TestClient) {
  const code = answerOf(visit).get('code')
  if (code === null) throw new Error(`No code: ${visit.status} ${visit.location} ${visit.body}`)
  const { body } = await idp.token(idp.codeForm(client, code))
  return claimsOf(body.id_token)
}
const press = (browser: Browser, page: Visit, value: string) => browser.submit(page, {}, { name: 'decision', value })

describe('a client whose policy wants a second factor leads to it', () => {
  test('by a code of the app: the flow goes on in the same session, under another cookie, at aal2', async () => {
    const { browser, secret } = await withApp()
    const before = await claimsAt(await ask(browser, open), open)
    expect(before).toMatchObject({ acr: 'aal1', amr: ['pwd'] })
    idp.advance(5 * MINUTE_MS)
    const page = await ask(browser, strict)
    expect(page.body).toContain('Strict application')
    expect(page.body).not.toContain('Use a passkey')
    const proven = await browser.submit(page, { code: await codeOf(secret) })
    expect(proven.headers.getSetCookie()[0]).toMatch(/^session_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax/)
    const after = await claimsAt(await browser.follow(proven, idp.url), strict)
    expect(after).toMatchObject({ acr: 'aal2', amr: ['pwd', 'otp', 'mfa'], sid: before.sid })
    expect(Number(after.auth_time) - Number(before.auth_time)).toBeGreaterThanOrEqual(300)
    // Used once: it is not asked for again.
    expect(await claimsAt(await ask(browser, strict), strict)).toMatchObject({ acr: 'aal2' })
  })

  test('the session and its audit entry tell the time of a second factor alike, although each look at the clock tells another', async () => {
    const { person, browser, secret } = await withApp()
    const page = await ask(browser, strict)
    idp.stepAtEachReading(1)
    onTestFinished(() => idp.stepAtEachReading(0))
    await browser.submit(page, { code: await codeOf(secret) })
    const [of] = await idp.deps.db.execute(sql`
      select s.auth_time = a.at as is_audited, s.created_at + interval '90 days' = s.expires_at as is_whole
      from sessions s join audit_events a on a.action = 'user.second_factor_shown' and a.subject = ${`user:${person.userId}`}
      where s.user_id = ${person.userId} order by s.auth_time desc limit 1`)
    expect(of).toEqual({ is_audited: true, is_whole: true })
  })

  test('the session lasts no longer for it', async () => {
    const { person, browser, secret } = await withApp()
    const { sid } = await claimsAt(await ask(browser, open), open)
    const span = () =>
      idp.deps.db.execute(
        sql`select created_at, expires_at from sessions where id = ${sid} and user_id = ${person.userId}`,
      )
    const before = await span()
    expect(before).toHaveLength(1)
    idp.advance(13 * 24 * 60 * MINUTE_MS)
    const proven = await browser.submit(await ask(browser, strict), { code: await codeOf(secret) })
    expect(await span()).toEqual(before)
    expect(proven.headers.getSetCookie()[0]).toMatch(/Max-Age=66\d{5}$/) // 77 days of 90
  })

  test('a session that is ended meanwhile does not go on', async () => {
    const { person, browser, secret } = await withApp()
    const sessionId = String((await claimsAt(await ask(browser, open), open)).sid)
    const page = await ask(browser, strict)
    const code = await codeOf(secret)
    await holding(idp.databaseUrl, (held) => held`select from users where id = ${person.userId} for update`, [
      () => browser.submit(page, { code }),
      () => endSessionOf(idp.deps, { userId: person.userId, sessionId }),
    ])
    expect((await browser.visit(`${idp.url}/`)).location).toContain('/sign-in')
    expect(await idp.deps.db.execute(sql`select 1 from sessions where id = ${sessionId}`)).toHaveLength(0)
  })

  test('the cookie of before is worth nothing afterwards', async () => {
    const { browser, cookie, secret } = await withApp()
    const home = () => idp.send('GET /', undefined, { cookie })
    expect((await home()).status).toBe(200)
    await browser.submit(await ask(browser, strict), { code: await codeOf(secret) })
    expect((await home()).status).toBe(302)
  })

  test('by a recovery code', async () => {
    const { browser, recoveryCodes } = await withApp()
    const done = await browser.submit(await ask(browser, strict), { code: recoveryCodes[0] ?? '' })
    expect(await claimsAt(await browser.follow(done, idp.url), strict)).toMatchObject({ acr: 'aal2' })
  })

  test.each([
    [false, 'hwk'],
    [true, 'swk'],
  ])('by a passkey (synced: %s)', async (isSynced, key) => {
    const { browser, authenticator } = await withPasskey({ isSynced })
    const before = await claimsAt(await ask(browser, open), open)
    const page = await ask(browser, strict)
    expect(page.body).not.toContain('name="code"')
    const done = await browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })
    const after = await claimsAt(await browser.follow(done, idp.url), strict)
    expect(after).toMatchObject({ acr: 'aal2', amr: ['pwd', key, 'user', 'mfa'], sid: before.sid })
  })

  test('who signs in for it by passkey or code is not asked once more', async () => {
    const { person, secret } = await withApp()
    const browser = new Browser()
    const form = await ask(browser, strict)
    const page = await idp.signIn(browser, form, person)
    const done = await browser.follow(await browser.submit(page, { code: await codeOf(secret) }), idp.url)
    expect(await claimsAt(done, strict)).toMatchObject({ acr: 'aal2' })
  })

  test('cancelling tells the client no, and going on without is not offered', async () => {
    const { browser } = await withApp()
    const page = await ask(browser, strict)
    const forged = { csrf: field(page, 'csrf'), returnTo: idp.authorizeUrl(strict), decision: 'decline' }
    expect((await browser.follow(await browser.visit(`${idp.url}/second-factor`, forged), idp.url)).body).toContain(
      'Confirm that it is you',
    )
    const cancelled = await press(browser, page, 'cancel')
    expect(Object.fromEntries(answerOf(cancelled))).toMatchObject({ error: 'access_denied', state: 'a state & more' })
  })

  test('prompt=none is told interaction_required (OIDC Core §3.1.2.6)', async () => {
    const { browser } = await withApp()
    expect(answerOf(await ask(browser, strict, { prompt: 'none' })).get('error')).toBe('interaction_required')
  })

  test('someone whom its policy does not permit is told so first', async () => {
    const { browser } = await withApp()
    const closed = await idp.client()
    const policy = { domains: ['elsewhere.example'], requiresSecondFactor: true }
    await setClientPolicy(idp.deps, { clientId: closed.id, policy })
    expect(answerOf(await ask(browser, closed)).get('error')).toBe('access_denied')
  })
})

describe('someone without a second factor sets one up, and goes on where they wanted to be', () => {
  const linkTo = (page: Visit, to: string) =>
    new RegExp(`href="(${idp.url}/${to}\\?[^"]+)"`).exec(page.body)?.[1]?.replaceAll('&amp;', '&') ?? ''

  test('an app, whose page of recovery codes leads on', async () => {
    const browser = await idp.signedIn(await idp.person())
    const page = await ask(browser, strict)
    expect(page.body).toContain('Set up a second factor')
    const add = await browser.visit(linkTo(page, 'authenticator/add'))
    const wrong = await browser.submit(add, { code: '000000' })
    const done = await browser.submit(wrong, { code: await codeOf(secretOn(add)) })
    const on = /class="button" href="([^"]+)"/.exec(done.body)?.[1]?.replaceAll('&amp;', '&') ?? ''
    expect(on).toBe(idp.authorizeUrl(strict))
    expect(await claimsAt(await browser.follow(await browser.visit(on), idp.url), strict)).toMatchObject({
      acr: 'aal2',
    })
  })

  test('a passkey, in a session that has to sign in again for it', async () => {
    const person = await idp.person()
    const browser = await idp.signedIn(person)
    idp.advance(20 * MINUTE_MS)
    const page = await ask(browser, strict)
    const sentAway = await browser.visit(linkTo(page, 'passkeys/add'))
    expect(sentAway.location?.split('?')[0]).toBe(`${idp.url}/sign-in`)
    const form = await browser.follow(sentAway, idp.url)
    const add = await browser.follow(await idp.signIn(browser, form, person), idp.url)
    expect(add.headers.get('content-security-policy')).toContain("form-action 'self' https://app.example.com")
    const authenticator = new SoftAuthenticator(idp.url)
    const done = await browser.submit(add, { credential: authenticator.create(passkeyOptionsOn(add)) })
    const claims = await claimsAt(await browser.follow(done, idp.url), strict)
    expect(claims).toMatchObject({ acr: 'aal2', amr: ['pwd', 'hwk', 'user', 'mfa'] })
  })

  test.each(['https://evil.example.com/', '//evil.example.com', '/passkeys', '/oauth2/token', 'x'])(
    'a page of setting up that is told to lead to %s does not',
    async (evil) => {
      const browser = await idp.signedIn(await idp.person())
      const page = await browser.visit(`${idp.url}/passkeys/add?returnTo=${encodeURIComponent(evil)}`)
      expect(page.body).not.toContain('name="returnTo"')
      const credential = new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page))
      const form = { csrf: field(page, 'csrf'), name: 'x', credential, returnTo: evil }
      expect((await browser.visit(`${idp.url}/passkeys/add`, form)).location).toBe(`${idp.url}/passkeys`)
    },
  )
})

describe('acr_values wishes for a second factor (OIDC Core §5.5.1.1)', () => {
  test('and gets it', async () => {
    const { browser, secret } = await withApp()
    const page = await ask(browser, open, { acr_values: 'urn:unknown aal2 aal1' })
    const done = await browser.follow(await browser.submit(page, { code: await codeOf(secret) }), idp.url)
    expect(await claimsAt(done, open)).toMatchObject({ acr: 'aal2' })
  })

  test('or not: who goes on without is at aal1, and the same request asks anew', async () => {
    const browser = await idp.signedIn(await idp.person())
    for (let i = 0; i < 2; i++) {
      const page = await ask(browser, open, { acr_values: 'aal2' })
      expect(page.body).toContain('Go on without')
      const done = await browser.follow(await press(browser, page, 'decline'), idp.url)
      expect(await claimsAt(done, open)).toMatchObject({ acr: 'aal1' })
    }
  })

  test.each(['aal1 aal2', 'aal1', 'urn:unknown', ''])(
    '%j, whose first known value is met, asks nothing',
    async (values) => {
      const browser = await idp.signedIn(await idp.person())
      expect(answerOf(await ask(browser, open, { acr_values: values })).get('code')).toBeTruthy()
    },
  )

  test('with prompt=none it is not an error', async () => {
    const browser = await idp.signedIn(await idp.person())
    const done = await ask(browser, open, { acr_values: 'aal2', prompt: 'none' })
    expect(await claimsAt(done, open)).toMatchObject({ acr: 'aal1' })
  })

  test.each(['login', 'select_account', 'login consent'])('with prompt=%s every page comes once', async (prompt) => {
    const person = await idp.person()
    const browser = await idp.signedIn(person)
    let page = await ask(browser, open, { prompt, acr_values: 'aal2' })
    page = prompt.includes('login')
      ? await browser.follow(await idp.signIn(browser, page, person), idp.url)
      : await browser.follow(await press(browser, page, 'continue'), idp.url)
    expect(page.url).toContain('/second-factor?')
    page = await browser.follow(await press(browser, page, 'decline'), idp.url)
    if (prompt.includes('consent')) page = await browser.follow(await press(browser, page, 'approve'), idp.url)
    expect(answerOf(page).get('code')).toBeTruthy()
  })

  test.each<Record<string, string>>([{ prompt: 'login' }, { max_age: '0' }])(
    '%j and a passkey after the password do not loop',
    async (more) => {
      const { person, browser, authenticator } = await withPasskey()
      const form = await ask(browser, strict, more)
      const page = await browser.follow(await idp.signIn(browser, form, person), idp.url)
      const done = await browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })
      expect(await claimsAt(await browser.follow(done, idp.url), strict)).toMatchObject({ acr: 'aal2' })
    },
  )

  test('saying no makes no session younger than the request lets it be', async () => {
    const { browser } = await withApp()
    const wish = { acr_values: 'aal2', max_age: '600', prompt: 'consent' }
    const signIn = await ask(browser, open, wish)
    expect((await press(browser, signIn, 'decline')).status).toBe(303)
    idp.advance(11 * MINUTE_MS)
    expect((await browser.visit(idp.authorizeUrl(open, wish))).location).toContain('/sign-in')
  })

  test('saying no to one request says nothing to another', async () => {
    const browser = await idp.signedIn(await idp.person())
    const page = await ask(browser, open, { acr_values: 'aal2' })
    const { location } = await press(browser, page, 'decline')
    expect(location).toContain('/oauth2/authorize?')
    expect((await ask(browser, open, { acr_values: 'aal2', state: 'another' })).url).toContain('/second-factor?')
  })

  test('saying no skips no sign-in that the request wants', async () => {
    const browser = await idp.signedIn(await idp.person())
    const page = await ask(browser, open, { acr_values: 'aal2' })
    const request = idp.authorizeUrl(open, { acr_values: 'aal2', prompt: 'login' })
    const form = { csrf: field(page, 'csrf'), returnTo: request, decision: 'decline' }
    expect((await browser.visit(`${idp.url}/second-factor`, form)).location).toBe(request)
    expect((await browser.visit(request)).location).toContain('/sign-in?')
  })
})

describe('nothing counts as a second factor but one', () => {
  const isAtAal2 = async (browser: Browser) => answerOf(await ask(browser, strict)).get('code') !== null

  test('a wrong code is told so, and guesses are slowed down like those at sign-in', async () => {
    const { browser } = await withApp()
    const page = await ask(browser, strict)
    const wrong = await browser.submit(page, { code: '000000' })
    expect(wrong).toMatchObject({ status: 401, body: expect.stringContaining('role="alert"') })
    const answers = [wrong]
    while (answers.length < 6) answers.push(await browser.submit(wrong, { code: '000000' }))
    expect(answers.map(({ status }) => status)).toEqual([...Array<number>(5).fill(401), 429])
    expect(answers.at(-1)?.headers.get('retry-after')).toBe('1')
    expect(await isAtAal2(browser)).toBe(false)
  })

  test('a code that was taken at sign-in, and one of another account, are none', async () => {
    const [ana, eve] = [await withApp(), await withApp()]
    const code = await codeOf(ana.secret)
    const elsewhere = new Browser()
    const asked = await idp.signIn(elsewhere, await elsewhere.visit(`${idp.url}/sign-in`), ana.person)
    expect((await elsewhere.submit(asked, { code })).status).toBe(303)
    const page = await ask(ana.browser, strict)
    for (const wrong of [code, await codeOf(eve.secret), eve.recoveryCodes[0] ?? ''])
      expect((await ana.browser.submit(page, { code: wrong })).status).toBe(401)
    expect(await isAtAal2(ana.browser)).toBe(false)
  })

  test('the form takes the token of this session and this place', async () => {
    const [ana, eve] = [await withApp(), await withApp()]
    const page = await ask(ana.browser, strict)
    const foreign = await ask(eve.browser, strict)
    const code = await codeOf(ana.secret)
    const returnTo = idp.authorizeUrl(strict)
    for (const [csrf, to] of [
      ['', returnTo],
      [field(foreign, 'csrf'), returnTo],
      [field(page, 'csrf'), idp.authorizeUrl(strict, { state: 'another' })],
      [field(page, 'csrf'), `${idp.url}/device`],
    ] as const) {
      const form = { csrf, returnTo: to, code, credential: '' }
      for (const path of ['second-factor', 'second-factor/passkey'])
        expect((await ana.browser.visit(`${idp.url}/${path}`, form)).status).toBe(403)
    }
    expect(await isAtAal2(ana.browser)).toBe(false)
  })

  test('a passkey of another account, an unverified one, and challenges of other pages or used ones are none', async () => {
    const [ana, eve] = [await withPasskey(), await withPasskey()]
    const page = await ask(ana.browser, strict)
    const signIn = await new Browser().visit(`${idp.url}/sign-in`)
    const evePage = await ask(eve.browser, strict)
    const options = passkeyOptionsOn(page)
    for (const credential of [
      '',
      '{}',
      eve.authenticator.get(options),
      ana.authenticator.get(options, { isUserVerified: false }),
      ana.authenticator.get(options, { origin: 'https://evil.example.com' }),
      ana.authenticator.get(passkeyOptionsOn(signIn)),
      ana.authenticator.get(passkeyOptionsOn(evePage)),
    ])
      expect((await ana.browser.submit(page, { credential })).status).toBe(401)
    expect(await isAtAal2(ana.browser)).toBe(false)
    const credential = ana.authenticator.get(options)
    expect((await ana.browser.submit(page, { credential })).status).toBe(303)
    // An assertion for this page does not sign anyone in.
    const visitor = new Browser()
    expect((await visitor.submit(await visitor.visit(`${idp.url}/sign-in`), { credential })).status).toBe(401)
  })

  test('of one signature in ten requests at once one counts', async () => {
    const { browser, authenticator } = await withPasskey()
    const page = await ask(browser, strict)
    const credential = authenticator.get(passkeyOptionsOn(page))
    const answers = await Promise.all(Array.from({ length: 10 }, () => browser.submit(page, { credential })))
    expect(answers.filter(({ headers }) => headers.getSetCookie().length > 0)).toHaveLength(1)
  })

  test('without a session, or with one that needs nothing, the page leads to where it was to lead', async () => {
    const request = idp.authorizeUrl(strict)
    const to = (returnTo: string) => `${idp.url}/second-factor?returnTo=${encodeURIComponent(returnTo)}`
    expect((await new Browser().visit(to(request))).location).toBe(request)
    const browser = await idp.signedIn(await idp.person())
    expect((await browser.visit(to(idp.authorizeUrl(open)))).location).toBe(idp.authorizeUrl(open))
    expect((await new Browser().visit(to('https://evil.example.com/'))).location).toBe(`${idp.url}/`)
  })
})

describe('a password alone changes no second factor that is there', () => {
  const stepUpTo = (page: string) => `${idp.url}/second-factor?returnTo=${encodeURIComponent(`${idp.url}/${page}`)}`

  test('it adds none of its own beside a passkey, and does not remove it', async () => {
    const { person, authenticator } = await withPasskey()
    const thief = await idp.signedIn(person)
    expect((await thief.visit(`${idp.url}/authenticator/add`)).location).toBe(stepUpTo('authenticator/add'))
    expect((await thief.visit(`${idp.url}/passkeys/add`)).location).toBe(stepUpTo('passkeys/add'))
    const list = await thief.visit(`${idp.url}/passkeys`)
    const remove = /action="([^"]+remove)">\s*<input type="hidden" name="csrf" value="([^"]+)"/.exec(list.body)
    const form = { csrf: remove?.[2] ?? '', passkey: field(list, 'passkey') }
    expect((await thief.visit(remove?.[1] ?? '', form)).location).toBe(stepUpTo('passkeys'))
    // Its owner continues after using it.
    const page = await thief.visit(stepUpTo('passkeys'))
    await thief.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })
    const later = await thief.visit(`${idp.url}/passkeys`)
    expect(later.status).toBe(200)
    expect((await thief.visit(`${idp.url}/authenticator/add`)).status).toBe(200)
  })

  test('nor does a session from before the app: neither recovery codes nor removing it', async () => {
    const { person, browser } = await withApp()
    const page = await browser.visit(`${idp.url}/authenticator`)
    for (const name of ['proof-recovery-codes', 'proof-remove'])
      expect((await browser.submit(page, { [name]: person.password })).location).toBe(stepUpTo('authenticator'))
    expect((await browser.visit(`${idp.url}/passkeys/add`)).location).toBe(stepUpTo('passkeys/add'))
  })

  test('the page of a form that was filled in before is answered alike', async () => {
    const person = await idp.person()
    const thief = await idp.signedIn(person)
    const early = await thief.visit(`${idp.url}/authenticator/add`)
    const owner = await idp.signedIn(person)
    const page = await owner.visit(`${idp.url}/passkeys/add`)
    await owner.submit(page, { credential: new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page)) })
    expect((await thief.submit(early, { code: await codeOf(secretOn(early)) })).location).toBe(
      stepUpTo('authenticator/add'),
    )
  })
})

describe('approving a device', () => {
  const start = async (client: TestClient) =>
    (
      await idp.send(
        'POST /oauth2/device_authorization',
        { client_id: client.id, scope: 'openid' },
        { 'content-type': 'application/json' },
      )
    ).body as { device_code: string; user_code: string; verification_uri_complete: string }

  test('leads to the second factor and back to the approval, with the code', async () => {
    const { browser, secret } = await withApp()
    const { device_code, user_code, verification_uri_complete } = await start(strict)
    const approval = await browser.visit(verification_uri_complete)
    const page = await browser.follow(await press(browser, approval, 'approve'), idp.url)
    expect(page.body).toContain('Confirm that it is you')
    const back = await browser.submit(page, { code: await codeOf(secret) })
    expect(back.location).toBe(verification_uri_complete)
    const again = await browser.visit(verification_uri_complete)
    expect(again.body).toContain(user_code)
    expect((await press(browser, again, 'approve')).body).toContain('Device connected')
    const { body } = await idp.token({ grant_type: DEVICE_GRANT, client_id: strict.id, device_code })
    expect(claimsOf(body.id_token)).toMatchObject({ acr: 'aal2', amr: ['pwd', 'otp', 'mfa'] })
  })

  test('who has none sets it up on the way', async () => {
    const browser = await idp.signedIn(await idp.person())
    const { verification_uri_complete } = await start(strict)
    const approval = await browser.visit(verification_uri_complete)
    const page = await browser.follow(await press(browser, approval, 'approve'), idp.url)
    const link = /href="([^"]+authenticator\/add\?[^"]+)"/.exec(page.body)?.[1]?.replaceAll('&amp;', '&') ?? ''
    const add = await browser.visit(link)
    const done = await browser.submit(add, { code: await codeOf(secretOn(add)) })
    expect(done.body).toContain(`class="button" href="${verification_uri_complete}"`)
    const again = await browser.visit(verification_uri_complete)
    expect((await press(browser, again, 'approve')).body).toContain('Device connected')
  })

  test('denying takes none, and somebody whom the policy does not permit is refused', async () => {
    const { browser } = await withApp()
    const denied = await browser.visit((await start(strict)).verification_uri_complete)
    expect((await press(browser, denied, 'deny')).body).toContain('Request denied')
    const closed = await idp.client()
    const policy = { domains: ['elsewhere.example'], requiresSecondFactor: true }
    await setClientPolicy(idp.deps, { clientId: closed.id, policy })
    const approval = await browser.visit((await start(closed)).verification_uri_complete)
    expect((await press(browser, approval, 'approve')).status).toBe(403)
  })
})
