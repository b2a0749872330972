// engines: postgres
import { randomBytes } from 'node:crypto'
import { Browser } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claimsOf, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { createUser } from '../accounts/accounts.ts'

const NEW = 'a new and longer password'

let idp: TestIdp
let client: TestClient
let networks = 0
beforeAll(async () => {
  idp = await startTestIdp()
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  client = await idp.client()
})
afterAll(() => idp.close())

/** From a separate network, since guesses from one network count together. */
async function signedIn(person: TestPerson): Promise<Browser> {
  networks++
  const browser = new Browser({ 'x-forwarded-for': `10.20.${networks >> 8}.${networks & 255}` })
  await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
  return browser
}
const open = (browser: Browser) => browser.visit(`${idp.url}/password`)
const change = async (browser: Browser, current: string, wanted: string, again = wanted) =>
  browser.submit(await open(browser), { current, new: wanted, again })
const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200
const trySignIn = async (person: TestPerson, password: string) => {
  const browser = await signedIn({ ...person, password })
  return isSignedIn(browser)
}

describe('changing the password', () => {
  test('takes the current one; afterwards only the new one signs in', async () => {
    const ana = await idp.person()
    const browser = await signedIn(ana)
    expect((await browser.visit(`${idp.url}/`)).body).toContain(`href="${idp.url}/password"`)
    const done = await change(browser, ana.password, NEW)
    expect(done.status).toBe(200)
    expect(done.body).toContain('Password changed')
    expect(await trySignIn(ana, ana.password)).toBe(false)
    expect(await trySignIn(ana, NEW)).toBe(true)
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} user.password_changed`])
  })

  test('its owner is told by mail, and of a change that was refused not', async () => {
    const ana = await idp.person()
    const browser = await signedIn(ana)
    await change(browser, 'not the password', NEW)
    expect(await idp.letters(ana)).toEqual([])
    await change(browser, ana.password, NEW)
    const [letter, ...more] = await idp.letters(ana)
    expect(more).toEqual([])
    expect(letter).toContain('Subject: Your password was changed')
    expect(letter).toContain(`${idp.url}/forgot-password`)
    expect(letter).not.toContain(NEW)
  })

  test('ends every session, refresh family and pending code; this browser goes on under a new cookie and sid', async () => {
    const ana = await idp.person()
    const [here, there] = [await signedIn(ana), await signedIn(ana)]
    const tokens = await idp.tokens(client, ana)
    const code = await idp.code(client, ana, { scope: 'openid offline_access' })
    const sidOf = async (): Promise<unknown> => {
      const { location } = await here.follow(await here.visit(idp.authorizeUrl(client)), idp.url)
      const { body } = await idp.token(idp.codeForm(client, new URL(location ?? '').searchParams.get('code') ?? ''))
      return claimsOf(body.id_token as string).sid
    }
    const before = await sidOf()
    const page = await open(here)
    const done = await here.submit(page, { current: ana.password, new: NEW, again: NEW })
    expect(done.headers.getSetCookie()[0]).toMatch(/^session_\d+=[\w-]{43}; .*HttpOnly; SameSite=Lax/)
    expect([await isSignedIn(here), await isSignedIn(there)]).toEqual([true, false])
    expect(await sidOf()).not.toBe(before)
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    const refresh = { grant_type: 'refresh_token', client_id: client.id, refresh_token: tokens.refresh_token ?? '' }
    expect(await idp.token(refresh)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(client, code))).toMatchObject(refused)
    // The old page belongs to a session that is gone.
    expect((await here.submit(page, { current: NEW, new: ana.password, again: ana.password })).status).toBe(403)
  })

  test('leaves everybody else alone', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const his = await signedIn(bob)
    await change(await signedIn(ana), ana.password, NEW)
    expect(await isSignedIn(his)).toBe(true)
    expect(await trySignIn(bob, bob.password)).toBe(true)
  })

  test.each<[string, (ana: TestPerson) => [current: string, wanted: string, again?: string], number, string]>([
    ['a wrong current password', () => ['wrong password', NEW], 401, 'current password is not right'],
    ['a repetition that differs', ({ password }) => [password, NEW, `${NEW}!`], 400, 'not the same'],
    ['seven characters', ({ password }) => [password, 'seven77'], 400, 'at least 8 characters'],
    ['four that take two code units each', ({ password }) => [password, '😀😀😀😀'], 400, 'at least 8 characters'],
    ['1,025 bytes', ({ password }) => [password, 'x'.repeat(1_025)], 400, 'at most 1024 bytes'],
    ['the same again', ({ password }) => [password, password], 400, 'is the current one'],
    ['the email address', ({ password, email }) => [password, email.toUpperCase()], 400, 'your email address'],
    ['nothing', () => ['', ''], 400, 'at least 8 characters'],
    ['one that many use', ({ password }) => [password, 'password'], 400, 'attackers try first'],
    ['the same in capitals', ({ password }) => [password, 'PassWord'], 400, 'attackers try first'],
    ['the same in wide letters', ({ password }) => [password, 'ｐａｓｓｗｏｒｄ'], 400, 'attackers try first'],
    ['digits in a row', ({ password }) => [password, '12345678'], 400, 'attackers try first'],
    ['a row of the keyboard', ({ password }) => [password, 'qwertyui'], 400, 'attackers try first'],
    ['one that nobody else uses', ({ password }) => [password, 'rewqpoiuytrewq'], 400, 'the keyboard'],
    ['the alphabet backwards', ({ password }) => [password, 'ZYXWVUTSR'], 400, 'the alphabet'],
    ['one character', ({ password }) => [password, 'aaaaaaaa'], 400, 'the same few characters'],
    ['eight spaces', ({ password }) => [password, ' '.repeat(8)], 400, 'the same few characters'],
    ['three characters, again and again', ({ password }) => [password, 'x!7x!7x!7x'], 400, 'the same few characters'],
    ['a common one, twice', ({ password }) => [password, 'baseballbaseball'], 400, 'attackers try first'],
    [
      'the name of the address, twice',
      ({ password, email }) => [password, `${email.split('@')[0]}`.repeat(2)],
      400,
      'your email address',
    ],
    ['given and family name', ({ password }) => [password, 'Silva.Ana99'], 400, 'your name'],
    ['the name of the site', ({ password }) => [password, 'Platform2026!'], 400, 'the name of this site'],
    ['the host of the site', ({ password }) => [password, '!localhost1'], 400, 'the name of this site'],
  ])('refuses %s and says why; nothing ends', async (_, formOf, status, words) => {
    const ana = await idp.person()
    const [here, there] = [await signedIn(ana), await signedIn(ana)]
    const refused = await change(here, ...formOf(ana))
    expect(refused.status).toBe(status)
    expect(refused.body).toContain('role="alert"')
    expect(refused.body).toContain(words)
    expect(refused.body).not.toContain(NEW)
    expect([await isSignedIn(here), await isSignedIn(there)]).toEqual([true, true])
    expect(await idp.changesOf(ana)).toEqual([])
  })

  test('the name of an address, doubled or with a year, is refused for its owner and taken from somebody else', async () => {
    const email = `victim@${randomBytes(6).toString('hex')}.example.com`
    const password = randomBytes(12).toString('base64url')
    const victim = { userId: (await createUser(idp.deps, { email, password })).id, email, password }
    const browser = await signedIn(victim)
    for (const wanted of ['victimvictim', 'Victim2026!']) {
      const refused = await change(browser, password, wanted)
      expect(refused.status).toBe(400)
      expect(refused.body).toContain('made of your name, your email address or the name of this site')
    }
    expect(await isSignedIn(browser)).toBe(true)
    expect(await idp.changesOf(victim)).toEqual([])
    const ana = await idp.person()
    expect((await change(await signedIn(ana), ana.password, 'Victim2026!')).status).toBe(200)
  })

  test('what the operator sets is the business of the operator', async () => {
    const email = `${randomBytes(6).toString('hex')}@example.com`
    const { id } = await createUser(idp.deps, { email, password: 'password' })
    expect(await trySignIn({ userId: id, email, password: '' }, 'password')).toBe(true)
  })

  test.each([
    'correct horse battery staple',
    'my password is platform nine', // a phrase may hold any word
    'Ana Silva likes rain', // and a name
    '83920174650275', // digits that follow nothing
    'qwertyuiop and so on',
    'дом река лампа',
  ])('takes %j', async (wanted) => {
    const ana = await idp.person()
    expect((await change(await signedIn(ana), ana.password, wanted)).status).toBe(200)
    expect(await trySignIn(ana, wanted)).toBe(true)
  })

  test('guesses at the current password are slowed down like those at sign-in', async () => {
    const ana = await idp.person()
    const browser = await signedIn(ana)
    // Five for the browser, which is known, and five for its network.
    const answers: number[] = []
    while (answers.length < 11) answers.push((await change(browser, 'wrong password', NEW)).status)
    expect(answers).toEqual([...Array<number>(10).fill(401), 429])
    idp.advance(15 * 60_000)
    expect((await change(browser, ana.password, NEW)).status).toBe(200)
  })

  test('of several changes at once one stands', async () => {
    const ana = await idp.person()
    const browsers = await Promise.all([signedIn(ana), signedIn(ana), signedIn(ana)])
    const pages = await Promise.all(browsers.map(open))
    const wanted = browsers.map((_, i) => `${NEW} ${i}`)
    const submit = (i: number) => () => {
      const [browser, page, password = ''] = [browsers[i], pages[i], wanted[i]]
      if (!browser || !page) throw new Error(`No browser ${i}`)
      return browser.submit(page, { current: ana.password, new: password, again: password })
    }
    // All have proven the current password and wait for the user's row.
    const done = await holding(idp.databaseUrl, (sql) => sql`select from users where id = ${ana.userId} for update`, [
      submit(0),
      submit(1),
      submit(2),
    ])
    expect(done.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401])
    expect(await idp.changesOf(ana)).toHaveLength(1)
    const signIns = []
    for (const password of wanted) signIns.push(await trySignIn(ana, password))
    expect(signIns.filter(Boolean)).toHaveLength(1)
  })

  test('a sign-in that has proven the old password by then leaves no session', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana)
    const [late, page] = [new Browser({ 'x-forwarded-for': '10.21.0.1' }), await open(here)]
    const signInPage = await late.visit(`${idp.url}/sign-in`)
    // Both have proven the old password and wait for the user's row, the change first.
    const [changing, signingIn] = await holding(
      idp.databaseUrl,
      (sql) => sql`select from users where id = ${ana.userId} for update`,
      [
        () => here.submit(page, { current: ana.password, new: NEW, again: NEW }),
        () => idp.signIn(late, signInPage, ana),
      ],
    )
    expect(changing.status).toBe(200)
    expect(signingIn.status).toBe(401)
    expect([await isSignedIn(here), await isSignedIn(late)]).toEqual([true, false])
  })

  test('takes a session and the token of its form (CSRF)', async () => {
    const ana = await idp.person()
    const stranger = new Browser()
    const page = await stranger.follow(await open(stranger), idp.url)
    expect((await idp.signIn(stranger, page, ana)).location).toBe(`${idp.url}/password`)
    const form = { csrf: 'x', current: ana.password, new: NEW, again: NEW }
    expect((await stranger.visit(`${idp.url}/password`, form)).status).toBe(403)
    expect((await new Browser().visit(`${idp.url}/password`, form)).location).toContain('/sign-in?returnTo=')
    expect(await trySignIn(ana, ana.password)).toBe(true)
  })
})
