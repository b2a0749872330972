import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import { claimsOf, startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'
import { setClientPolicy } from '../clients/clients.ts'

const MINUTE_MS = 60_000

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

type Flaws = Parameters<SoftAuthenticator['get']>[1]

/** Adds a passkey in a browser that is signed in. */
async function add(browser: Browser, authenticator: SoftAuthenticator, name = 'My phone', flaws: Flaws = {}) {
  const page = await browser.visit(`${idp.url}/passkeys/add`)
  return browser.submit(page, { credential: authenticator.create(passkeyOptionsOn(page), flaws), name })
}
async function withPasskey(options: { isSynced?: boolean } = {}) {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const authenticator = new SoftAuthenticator(idp.url, options)
  expect(await add(browser, authenticator)).toMatchObject({ status: 303, location: `${idp.url}/passkeys` })
  return { person, browser, authenticator }
}
async function signIn(authenticator: SoftAuthenticator, flaws: Flaws = {}, browser = new Browser()) {
  const page = await browser.visit(`${idp.url}/sign-in`)
  return browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page), flaws) })
}
const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200
/**
 * The results of adding several passkeys at once in one session. The first moves the session to another cookie, so the others
 * are refused, or redirected to sign-in if they arrive so late that their session is gone.
 */
const outcomesOf = (answers: readonly { status: number; location?: string | undefined }[]): string[] =>
  answers
    .map(({ status, location }) =>
      status === 303 && location === `${idp.url}/passkeys`
        ? 'added'
        : [303, 400].includes(status)
          ? 'refused'
          : 'failed',
    )
    .toSorted()
const listed = async (browser: Browser) =>
  [...(await browser.visit(`${idp.url}/passkeys`)).body.matchAll(/<h2>([^<]*)<\/h2>/g)].map(([, name = '']) => name)

describe('signing in with a passkey (identity.md: passkeys)', () => {
  test.each([
    [false, 'hwk'],
    [true, 'swk'],
  ])('takes no password and no code, and is a second factor by itself (synced: %s)', async (isSynced, key) => {
    const { person, authenticator } = await withPasskey({ isSynced })
    const client = await idp.client()
    await setClientPolicy(idp.deps, { clientId: client.id, policy: { requiresSecondFactor: true } })
    const browser = new Browser()
    const page = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
    const done = await browser.follow(
      await browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) }),
      idp.url,
    )
    const code = new URL(done.location ?? '').searchParams.get('code') ?? ''
    const { body } = await idp.token(idp.codeForm(client, code))
    expect(claimsOf(body.id_token)).toMatchObject({ sub: person.userId, amr: [key, 'user', 'mfa'], acr: 'aal2' })
  })

  test('asks for a passkey of this host that verifies its user, and names nobody', async () => {
    const options = passkeyOptionsOn(await new Browser().visit(`${idp.url}/sign-in`))
    expect(options).toMatchObject({ rpId: 'localhost', userVerification: 'required' })
    expect(options.allowCredentials ?? []).toEqual([])
  })

  test.each<[string, (of: SoftAuthenticator) => Flaws]>([
    ['another site', () => ({ origin: 'https://evil.example.com' })],
    ['another host', () => ({ rpId: 'evil.example.com' })],
    ['no verification of the user', () => ({ isUserVerified: false })],
    ['a challenge of nobody', () => ({ challenge: Buffer.from('test.AAAA').toString('base64url') })],
    ['another user handle', () => ({ userHandle: Buffer.alloc(16).toString('base64url') })],
  ])('refuses %s', async (_, flawsOf) => {
    const { authenticator } = await withPasskey()
    const browser = new Browser()
    const refused = await signIn(authenticator, flawsOf(authenticator), browser)
    expect(refused).toMatchObject({ status: 401, body: expect.stringContaining('role="alert"') })
    expect(await isSignedIn(browser)).toBe(false)
    expect((await signIn(authenticator)).status).toBe(303)
  })

  test('refuses what is no credential, a passkey that nobody added, and one whose signature is of another', async () => {
    const { authenticator } = await withPasskey()
    const browser = new Browser()
    const page = await browser.visit(`${idp.url}/sign-in`)
    const right = JSON.parse(authenticator.get(passkeyOptionsOn(page))) as { response: { signature: string } }
    const stranger = new SoftAuthenticator(idp.url)
    const other = JSON.parse(stranger.get(passkeyOptionsOn(page))) as { response: { signature: string } }
    const swapped = { ...right, response: { ...right.response, signature: other.response.signature } }
    for (const credential of ['', '{', 'null', '{"id":"x"}', JSON.stringify(other), JSON.stringify(swapped)])
      expect((await browser.submit(page, { credential })).status).toBe(401)
    expect((await browser.submit(page, { credential: JSON.stringify(right) })).status).toBe(303)
  })

  test('a challenge is good for the browser that it was given to, for an hour', async () => {
    const { authenticator } = await withPasskey()
    const [here, there] = [new Browser(), new Browser()]
    const [page, other] = [await here.visit(`${idp.url}/sign-in`), await there.visit(`${idp.url}/sign-in`)]
    const credential = authenticator.get(passkeyOptionsOn(page))
    expect((await there.submit(other, { credential })).status).toBe(401)
    idp.advance(60 * MINUTE_MS)
    expect((await here.submit(page, { credential })).status).toBe(401)
  })

  test('it is good once: of ten uses of one signature at once one gets in, and none later', async () => {
    for (const isSynced of [false, true]) {
      const { authenticator } = await withPasskey({ isSynced })
      const browser = new Browser()
      const page = await browser.visit(`${idp.url}/sign-in`)
      const credential = authenticator.get(passkeyOptionsOn(page))
      const uses = await Promise.all(Array.from({ length: 10 }, () => browser.submit(page, { credential })))
      expect(uses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([303, ...Array<number>(9).fill(401)])
      expect((await browser.submit(page, { credential })).status).toBe(401)
    }
  })

  test('a counter that does not go on comes from a copy: refused, and written down', async () => {
    const { person, authenticator } = await withPasskey()
    expect((await signIn(authenticator, { counter: 10 })).status).toBe(303)
    for (const counter of [10, 9, 0]) expect((await signIn(authenticator, { counter })).status).toBe(401)
    expect((await idp.changesOf(person)).slice(1)).toEqual(Array(3).fill('system passkey.counter_went_back'))
    expect((await signIn(authenticator, { counter: 11 })).status).toBe(303)
  })

  test('takes the CSRF token of the page', async () => {
    const { authenticator } = await withPasskey()
    const browser = new Browser()
    const page = await browser.visit(`${idp.url}/sign-in`)
    const credential = authenticator.get(passkeyOptionsOn(page))
    expect((await browser.visit(`${idp.url}/sign-in/passkey`, { csrf: 'x', credential })).status).toBe(403)
    expect((await browser.visit(`${idp.url}/sign-in/passkey`)).location).toContain('/sign-in?')
  })

  test('lets in neither with a removed passkey nor to a suspended account', async () => {
    const [ana, bob] = [await withPasskey(), await withPasskey()]
    await remove(ana.browser, await idOf(ana.person))
    expect((await signIn(ana.authenticator)).status).toBe(401)
    await suspendUser(idp.deps, bob.person.userId)
    expect(await signIn(bob.authenticator)).toMatchObject({ status: 403, body: expect.stringContaining('suspended') })
  })

  test('it works beside an authenticator app, and outlives a password reset', async () => {
    const { person, authenticator } = await withPasskey()
    await idp.deps.db.execute(`update users set password_hash = 'another' where id = '${person.userId}'`)
    expect((await signIn(authenticator)).status).toBe(303)
  })
})

const idOf = async ({ userId }: TestPerson): Promise<string> => {
  const [row] = await idp.deps.db.execute<{ id: string }>(
    `select id from passkeys where user_id = '${userId}' order by id desc`,
  )
  return row?.id ?? ''
}
/** Presses a button of one passkey. */
async function press(browser: Browser, path: 'rename' | 'remove', id: string, fields: Record<string, string> = {}) {
  const { body } = await browser.visit(`${idp.url}/passkeys`)
  const forms = [...body.matchAll(/<form\b[\s\S]*?<\/form>/g)].map(([form]) => form)
  const form = forms.find((text) => text.includes(`/passkeys/${path}"`) && text.includes(id)) ?? ''
  const csrf = /name="csrf" value="([^"]+)"/.exec(form)?.[1] ?? ''
  return browser.visit(`${idp.url}/passkeys/${path}`, { csrf, passkey: id, ...fields })
}
const remove = (browser: Browser, id: string) => press(browser, 'remove', id)

describe('passkeys of an account', () => {
  test('are several, with names, and can be renamed and removed; each change is audited', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    expect((await browser.visit(`${idp.url}/passkeys`)).body).toContain('You have no passkey yet')
    const [first, second] = [new SoftAuthenticator(idp.url), new SoftAuthenticator(idp.url, { isSynced: true })]
    await add(browser, first, 'Key ring')
    await add(browser, second, ' ')
    expect(await listed(browser)).toEqual(['node', 'Key ring'])
    expect((await signIn(first)).status).toBe(303)
    expect((await signIn(second)).status).toBe(303)
    const id = await idOf(ana)
    await press(browser, 'rename', id, { name: '  <b>Laptop\u0007</b> ' })
    expect(await listed(browser)).toEqual(['&lt;b&gt;Laptop &lt;/b&gt;', 'Key ring'])
    expect((await remove(browser, id)).location).toBe(`${idp.url}/passkeys`)
    expect(await listed(browser)).toEqual(['Key ring'])
    expect((await signIn(second)).status).toBe(401)
    expect(await idp.changesOf(ana)).toEqual([
      `user:${ana.userId} user.passkey_added`,
      `user:${ana.userId} user.passkey_added`,
      `user:${ana.userId} user.passkey_removed`,
    ])
  })

  test('their owner is told by mail of each that comes and goes', async () => {
    const { person, browser } = await withPasskey()
    await remove(browser, await idOf(person))
    const subjects = (await idp.letters(person)).map((letter) => /^Subject: (.+)$/m.exec(letter)?.[1]?.trim())
    expect(subjects).toEqual(['A passkey was added to your account', 'A passkey was removed from your account'])
  })

  test('a device that holds one is told so, and the options ask for a discoverable passkey of a verified user', async () => {
    const { browser } = await withPasskey()
    const options = passkeyOptionsOn(await browser.visit(`${idp.url}/passkeys/add`))
    expect(options).toMatchObject({
      rp: { id: 'localhost' },
      attestation: 'none',
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      excludeCredentials: [{ transports: ['internal'] }],
    })
  })

  test.each<[string, Flaws]>([
    ['another site', { origin: 'https://evil.example.com' }],
    ['another host', { rpId: 'evil.example.com' }],
    ['no verification of the user', { isUserVerified: false }],
    ['a challenge of nobody', { challenge: 'x' }],
  ])('one that was made for %s is refused', async (_, flaws) => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const refused = await add(browser, new SoftAuthenticator(idp.url), 'Phone', flaws)
    expect(refused).toMatchObject({ status: 400, body: expect.stringContaining('role="alert"') })
    expect(await listed(browser)).toEqual([])
  })

  const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  const BITWARDEN = 'd548826e-79b4-db40-a3d8-11116f7e8349'

  test('one without a name is called after what keeps it, or after the browser, and numbered where the name is taken', async () => {
    const browser = new Browser({ 'user-agent': FIREFOX })
    await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), await idp.person())
    const make = async (name: string, aaguid?: string) => {
      const authenticator = new SoftAuthenticator(idp.url, { isSynced: true, ...(aaguid && { aaguid }) })
      expect((await add(browser, authenticator, name)).status).toBe(303)
    }
    await make('', BITWARDEN)
    await make(' ', BITWARDEN.toUpperCase())
    await make('', '01020304-0506-0708-0102-030405060708')
    await make('')
    await make('bitwarden', BITWARDEN)
    await make('ä'.repeat(64))
    await make('ä'.repeat(64))
    expect((await listed(browser)).toReversed()).toEqual([
      'Bitwarden',
      'Bitwarden 2',
      'Firefox on Linux',
      'Firefox on Linux 2',
      'bitwarden 3',
      'ä'.repeat(64),
      `${'ä'.repeat(62)} 2`,
    ])
    expect((await browser.visit(`${idp.url}/passkeys`)).body).toContain('<dd>Synced</dd>')
  })

  test('a challenge adds one passkey, in the session that it was given to, and none signs in with it', async () => {
    const [ana, eve] = [await idp.person(), await idp.person()]
    const [hers, evil] = [await idp.signedIn(ana), await idp.signedIn(eve)]
    const [page, foreign] = [await hers.visit(`${idp.url}/passkeys/add`), await evil.visit(`${idp.url}/passkeys/add`)]
    const credentials = [1, 2, 3, 4].map(() => new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page)))
    expect((await evil.submit(foreign, { credential: credentials[0] ?? '', name: 'x' })).status).toBe(400)
    const added = await Promise.all(credentials.map((credential) => hers.submit(page, { credential, name: 'x' })))
    expect(outcomesOf(added)).toEqual(['added', 'refused', 'refused', 'refused'])
    expect(await listed(hers)).toHaveLength(1)
    const authenticator = new SoftAuthenticator(idp.url)
    await add(hers, authenticator)
    const { challenge } = passkeyOptionsOn(await hers.visit(`${idp.url}/passkeys/add`))
    expect((await signIn(authenticator, { challenge })).status).toBe(401)
  })

  test('the same passkey is not added twice, and twenty are the most', async () => {
    const { person, browser, authenticator } = await withPasskey()
    expect((await add(browser, authenticator)).body).toContain('here already')
    await idp.deps.db.execute(
      `insert into passkeys select gen_random_uuid(), user_id, decode(md5(n::text) || md5(id::text), 'hex'), public_key, 0,
         transports, is_synced, name, created_at, null from passkeys, generate_series(1, 18) n where user_id = '${person.userId}'`,
    )
    const pages = await Promise.all([1, 2, 3].map(() => browser.visit(`${idp.url}/passkeys/add`)))
    const added = await Promise.all(
      pages.map((page) =>
        browser.submit(page, {
          credential: new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page)),
          name: 'x',
        }),
      ),
    )
    expect(outcomesOf(added)).toEqual(['added', 'refused', 'refused'])
    expect(await listed(browser)).toHaveLength(20)
  })

  test('take a session and its CSRF token; adding, one of the last quarter of an hour', async () => {
    const { person, browser } = await withPasskey()
    const id = await idOf(person)
    const page = await browser.visit(`${idp.url}/passkeys/add`)
    const form = { csrf: 'x', passkey: id, name: 'x', credential: '{}' }
    for (const path of ['add', 'rename', 'remove']) {
      expect((await browser.visit(`${idp.url}/passkeys/${path}`, form)).status).toBe(403)
      expect((await new Browser().visit(`${idp.url}/passkeys/${path}`, form)).location).toContain('/sign-in?')
    }
    expect((await new Browser().visit(`${idp.url}/passkeys`)).location).toContain('/sign-in?')
    idp.advance(15 * MINUTE_MS)
    const wanted = `${idp.url}/sign-in?returnTo=${encodeURIComponent(`${idp.url}/passkeys/add`)}`
    expect((await browser.visit(`${idp.url}/passkeys/add`)).location).toBe(wanted)
    const credential = new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page))
    expect((await browser.submit(page, { credential, name: 'x' })).location).toBe(wanted)
    expect(await listed(browser)).toEqual(['My phone'])
  })

  test('of someone else stay as they are', async () => {
    const [ana, eve] = [await withPasskey(), await withPasskey()]
    const id = await idOf(ana.person)
    const { body } = await eve.browser.visit(`${idp.url}/passkeys`)
    const csrf = /name="csrf" value="([^"]+)"/.exec(body)?.[1] ?? ''
    for (const path of ['rename', 'remove'])
      expect((await eve.browser.visit(`${idp.url}/passkeys/${path}`, { csrf, passkey: id, name: 'mine' })).status).toBe(
        403,
      )
    expect(await listed(ana.browser)).toEqual(['My phone'])
  })
})

test('the script is a file of this site, kept for ever, and only pages that need it may run it', async () => {
  const browser = await idp.signedIn(await idp.person())
  const withScript = [
    await new Browser().visit(`${idp.url}/sign-in`),
    await browser.visit(`${idp.url}/passkeys/add`),
    await browser.visit(`${idp.url}/password`),
  ]
  for (const page of withScript) {
    expect(page.headers.get('content-security-policy')).toContain("; script-src 'self';")
    const src = /<script type="module" src="([^"]+)"><\/script>/.exec(page.body)?.[1] ?? ''
    const script = await idp.send(`GET ${src}`)
    expect(script.headers['content-type']).toBe('text/javascript; charset=utf-8')
    expect(script.headers['cache-control']).toContain('immutable')
  }
  for (const path of ['/email', '/sign-out', '/device', '/authenticator', '/authenticator/add']) {
    const page = await browser.visit(`${idp.url}${path}`)
    expect([page.status, page.body.includes('<script')]).toEqual([200, false])
    expect(page.headers.get('content-security-policy')).not.toContain('script-src')
  }
})
