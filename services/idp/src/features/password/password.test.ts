import { Browser } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claimsOf, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'

const NEW = 'a new and longer password'

let idp: TestIdp
let client: TestClient
let networks = 0
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client()
})
afterAll(() => idp.close())

/** From a network of its own, since guesses of one network count together. */
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
const auditOf = async ({ userId }: TestPerson) => {
  const rows = await idp.deps.db.execute<{ actor: string; action: string }>(
    `select actor, action from audit_events where subject = 'user:${userId}' and action <> 'user.created' order by id`,
  )
  return rows.map(({ actor, action }) => `${actor} ${action}`)
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
    expect(await auditOf(ana)).toEqual([`user:${ana.userId} user.password_changed`])
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
    // The page that was left open belongs to a session that is gone.
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
  ])('refuses %s and says why; nothing ends', async (_, formOf, status, words) => {
    const ana = await idp.person()
    const [here, there] = [await signedIn(ana), await signedIn(ana)]
    const refused = await change(here, ...formOf(ana))
    expect(refused.status).toBe(status)
    expect(refused.body).toContain('role="alert"')
    expect(refused.body).toContain(words)
    expect(refused.body).not.toContain(NEW)
    expect([await isSignedIn(here), await isSignedIn(there)]).toEqual([true, true])
    expect(await auditOf(ana)).toEqual([])
  })

  test('guesses at the current password are slowed down like those at sign-in', async () => {
    const ana = await idp.person()
    const browser = await signedIn(ana)
    for (let i = 0; i < 5; i++) expect((await change(browser, 'wrong password', NEW)).status).toBe(401)
    expect((await change(browser, ana.password, NEW)).status).toBe(429)
    idp.advance(1_100)
    expect((await change(browser, ana.password, NEW)).status).toBe(200)
  })

  test('of several changes at once one stands', async () => {
    const ana = await idp.person()
    const browsers = await Promise.all([signedIn(ana), signedIn(ana), signedIn(ana)])
    const wanted = browsers.map((_, i) => `${NEW} ${i}`)
    await Promise.all(browsers.map((browser, i) => change(browser, ana.password, wanted[i] ?? '')))
    expect(await auditOf(ana)).toHaveLength(1)
    const signIns = []
    for (const password of wanted) signIns.push(await trySignIn(ana, password))
    expect(signIns.filter(Boolean)).toHaveLength(1)
  })

  test('a sign-in that has proven the old password by then leaves no session', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana)
    const [late, page] = [new Browser({ 'x-forwarded-for': '10.21.0.1' }), await open(here)]
    const signInPage = await late.visit(`${idp.url}/sign-in`)
    // Both have proven the old password and wait for the user's row, the change in front.
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
