// engines: postgres
import { Browser } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createCheapHashing } from '@platform/testing/cheap-hashing'
import { refuseCommits } from '../../../test/refuse-commit.ts'
import { startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { deleteUser } from '../access/delete-user.ts'
import { restoreUser, suspendUser } from '../access/suspend-user.ts'
import { createUser } from '../accounts/accounts.ts'
import { attemptKey } from '../attempts/attempts.ts'
import { attempts } from '../attempts/table.ts'

const hashing = createCheapHashing()
let idp: TestIdp
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp({}, { hashing })
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  ana = await idp.person()
})
afterAll(() => idp.close())

/** From a separate network, since attempts from one network count together. */
const from = (address: string) => new Browser({ 'x-forwarded-for': address })
const openForm = (browser: Browser, returnTo?: string) =>
  browser.visit(`${idp.url}/sign-in${returnTo === undefined ? '' : `?returnTo=${encodeURIComponent(returnTo)}`}`)
const tryIn = async (browser: Browser, form: { email: string; password: string }, returnTo?: string) =>
  browser.submit(await openForm(browser, returnTo), { email: form.email, password: form.password })

test('the right password signs in under a new cookie that scripts and other sites do not get', async () => {
  const done = await tryIn(from('10.1.0.1'), ana)
  expect(done).toMatchObject({ status: 303, location: `${idp.url}/` })
  const [cookie = ''] = done.headers.getSetCookie()
  expect(cookie).toMatch(/^session_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=7776000$/)
})

test('the email is matched in any case and with spaces around it', async () => {
  const done = await tryIn(from('10.1.0.2'), { ...ana, email: ` ${ana.email.toUpperCase()} ` })
  expect(done.status).toBe(303)
})

test('signing in again gives another cookie, and the one before is worth nothing', async () => {
  const browser = from('10.1.0.3')
  const cookieOf = async () =>
    (await tryIn(browser, ana, '/passkeys/add')).headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const before = await cookieOf()
  const home = (cookie: string) => idp.send('GET /', undefined, { cookie })
  expect((await home(before)).status).toBe(200)
  const after = await cookieOf()
  expect(after).not.toBe(before)
  expect((await home(after)).status).toBe(200)
  expect((await home(before)).status).toBe(302)
})

test('a refusal is the same page for a known, an unknown and a suspended address, but for the address itself', async () => {
  const suspended = await idp.person()
  await suspendUser(idp.deps, suspended.userId)
  const emails = [ana.email, 'nobody@example.com', suspended.email]
  const pages = await Promise.all(
    emails.map(async (email, i) => {
      const { body } = await tryIn(from(`10.1.1.${i}`), { email, password: 'not the password' })
      // Tokens of the form, and the challenge of a passkey.
      return body.replaceAll(email, 'ADDRESS').replaceAll(/[\w-]{22,}(?:\.[\w-]+)*/g, 'RANDOM')
    }),
  )
  expect(pages[0]).toContain('aria-invalid="true"')
  expect(new Set(pages).size).toBe(1)
})

describe('the sign-in page of somebody who is signed in', () => {
  test.each([
    ['opened by itself leads home', undefined, '/'],
    ['leads on to the page behind it', '/passkeys', '/passkeys'],
    ['leads on to a device', '/device?user_code=ABCD-EFGH', '/device?user_code=ABCD-EFGH'],
    ['leads home from another site', 'https://evil.example.com/', '/'],
  ])('%s', async (_, returnTo, leadsTo) => {
    const { status, location } = await openForm(await idp.signedIn(ana), returnTo)
    expect({ status, location }).toEqual({ status: 302, location: `${idp.url}${leadsTo}` })
  })

  test('asks once more for a page that needs a recent sign-in, and says why', async () => {
    const page = await openForm(await idp.signedIn(ana), '/passkeys/add')
    expect(page.status).toBe(200)
    expect(page.body).toContain('so that nobody else changes how you sign in')
  })

  test('asks once more for a client that wants a new sign-in', async () => {
    const browser = await idp.signedIn(ana)
    const url = idp.authorizeUrl(await idp.client({ name: 'A careful application' }), { prompt: 'login' })
    const page = await browser.follow(await browser.visit(url), idp.url)
    expect(page.status).toBe(200)
    expect(page.body).toContain('A careful application')
    expect(page.body).not.toContain('nobody else changes')
  })
})

describe('without staying signed in', () => {
  const HOUR = 3_600_000
  /** Off: browsers omit a box that is not ticked. */
  const leaving = async (browser: Browser, person: TestPerson) => {
    const page = await openForm(browser)
    return browser.submit(page, { email: person.email, password: person.password, stay: '' })
  }
  const sessionCookie = (visit: { headers: Headers }) =>
    visit.headers.getSetCookie().find((line) => line.startsWith('session_')) ?? ''
  const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200

  test('the cookie goes with the browser, and a day without a visit ends the session; it is offered, and not the rule', async () => {
    const bob = await idp.person()
    const page = await openForm(new Browser())
    expect(page.body).toMatch(/name="stay" value="on"\s+checked/)
    const [browser, stays] = [from('10.13.0.1'), await idp.signedIn(bob)]
    const done = await leaving(browser, bob)
    expect(done.status).toBe(303)
    expect(sessionCookie(done)).toMatch(/^session_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/)
    for (let visit = 0; visit < 3; visit++) {
      idp.advance(23 * HOUR)
      expect(await isSignedIn(browser)).toBe(true)
    }
    idp.advance(24 * HOUR)
    expect(await isSignedIn(browser)).toBe(false)
    expect((await stays.visit(`${idp.url}/sessions`)).body).toContain('nowhere else')
  })

  test('a refused form keeps the choice', async () => {
    const bob = await idp.person()
    const refused = await leaving(from('10.13.0.2'), { ...bob, password: 'wrong password' })
    expect(refused.status).toBe(401)
    expect(refused.body).not.toMatch(/name="stay" value="on"\s+checked/)
    const browser = from('10.13.0.2')
    await leaving(browser, bob)
    // So does a form that asks again within the session.
    expect((await openForm(browser, '/passkeys/add')).body).not.toMatch(/name="stay" value="on"\s+checked/)
  })

  test('it goes on so after another password, and after a second factor was set up and is asked for', async () => {
    const bob = await idp.person()
    const browser = from('10.13.0.3')
    await leaving(browser, bob)
    const wanted = 'a new and longer password'
    const change = await browser.visit(`${idp.url}/password`)
    const changed = await browser.submit(change, { current: bob.password, new: wanted, again: wanted })
    const add = await browser.visit(`${idp.url}/authenticator/add`)
    const secret = /class="secret">([^<]+)</.exec(add.body)?.[1]?.replaceAll(' ', '') ?? ''
    const code = () => generateHOTP(base32.decode(secret, { strict: false }), Math.floor(idp.now().getTime() / 30_000))
    const added = await browser.submit(add, { code: await code() })
    idp.advance(60_000)
    const answer = await leaving(from('10.13.0.4'), { ...bob, password: wanted })
    expect(answer.body).toContain('Enter your code')
    const other = from('10.13.0.5')
    const form = await leaving(other, { ...bob, password: wanted })
    const done = await other.submit(form, { code: await code() })
    expect(done.status).toBe(303)
    for (const visit of [changed, added, done]) expect(sessionCookie(visit)).toMatch(/SameSite=Lax$/)
  })
})

test('a wrong password, an unknown user and one without a password read the same', async () => {
  const answers = []
  for (const [i, form] of [
    { email: ana.email, password: 'not the password' },
    { email: 'nobody@example.com', password: 'not the password' },
    { email: 'not an address', password: 'not the password' },
  ].entries()) {
    const { status, body } = await tryIn(from(`10.2.0.${i}`), form)
    const page = body.replaceAll(form.email, 'EMAIL').replaceAll(/name="csrf" value="[^"]+"|data-options="[^"]+"/g, '')
    answers.push({ status, page })
  }
  expect(answers[0]?.status).toBe(401)
  expect(answers[0]?.page).toContain('role="alert"')
  expect(answers[1]).toEqual(answers[0])
  expect(answers[2]).toEqual(answers[0])
})

test('an unknown user takes as long as a wrong password', async () => {
  const verify = vi.spyOn(hashing, 'verify')
  onTestFinished(() => verify.mockRestore())
  /** The parameters and password of each hash that a failed attempt asks for; these decide how long it takes. */
  const workOf = async (email: string, address: string) => {
    verify.mockClear()
    expect((await tryIn(from(address), { email, password: 'not the password' })).status).toBe(401)
    return verify.mock.calls.map(([hash, password]) => [hash.split('$').slice(0, 4).join('$'), password])
  }
  const withoutPassword = await createUser(idp.deps, { email: 'no-password-yet@example.com' })
  const { memoryKiB, passes } = hashing.cost
  const work = [[`$argon2id$v=19$m=${memoryKiB},t=${passes},p=1`, 'not the password']]
  expect(await workOf((await idp.person()).email, '10.3.0.1')).toEqual(work)
  expect(await workOf('nobody-at-all@example.com', '10.3.1.1')).toEqual(work)
  expect(await workOf(withoutPassword.email, '10.3.2.1')).toEqual(work)
})

test('a password of more than 1,024 bytes never fits and costs no more', async () => {
  expect((await tryIn(from('10.4.0.1'), { ...ana, password: 'x'.repeat(20_000) })).status).toBe(401)
})

describe('guessing is slowed down, by account and network', () => {
  test('after five wrong ones the right one has to wait, from this network; elsewhere it does not', async () => {
    const bob = await idp.person()
    const guess = (address: string, password: string) => tryIn(from(address), { ...bob, password })
    for (let i = 0; i < 5; i++) expect((await guess('10.5.0.1', 'wrong password')).status).toBe(401)
    const paused = await guess('10.5.0.1', bob.password)
    expect(paused.status).toBe(429)
    expect(paused.body).toContain('Too many attempts')
    expect((await guess('10.5.0.2', bob.password)).status).toBe(303)
  })

  test('an attempt that one back-off refuses counts on none behind it', async () => {
    const bob = await idp.person()
    const countOf = async (...parts: string[]) => {
      const [row] = await idp.deps.db
        .select()
        .from(attempts)
        .where(eq(attempts.key, attemptKey('sign-in', ...parts)))
      return row?.count
    }
    const guess = () => tryIn(from('10.5.3.1'), { ...bob, password: 'wrong password' })
    for (let i = 0; i < 5; i++) expect((await guess()).status).toBe(401)
    for (let i = 0; i < 3; i++) expect((await guess()).status).toBe(429)
    expect(await countOf('account', bob.email.toLowerCase())).toBe(5)
  })

  test('it is never a lock: the pause ends by itself, and success forgets the rest', async () => {
    const bob = await idp.person()
    const guess = (password: string) => tryIn(from('10.6.0.1'), { ...bob, password })
    for (let i = 0; i < 5; i++) await guess('wrong password')
    idp.advance(1_100)
    expect((await guess(bob.password)).status).toBe(303)
    expect((await guess('wrong password')).status).toBe(401)
    expect((await guess(bob.password)).status).toBe(303)
  })

  test('a hundred guesses at once are not a hundred free ones', async () => {
    const bob = await idp.person()
    const browser = from('10.7.0.1')
    const page = await openForm(browser)
    const guesses = Array.from({ length: 60 }, () =>
      browser.submit(page, { email: bob.email, password: 'wrong password' }),
    )
    const statuses = (await Promise.all(guesses)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 401)).toHaveLength(5)
    expect(statuses.filter((status) => status === 429)).toHaveLength(55)
  })

  test('people who sign in at the same instant do not hold each other up', async () => {
    const bob = await idp.person()
    const pages = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const browser = from(`10.7.1.${i}`)
        return { browser, page: await openForm(browser) }
      }),
    )
    const done = await Promise.all(pages.map(({ browser, page }) => idp.signIn(browser, page, bob)))
    expect(done.map(({ status }) => status)).toEqual(Array(20).fill(303))
  })

  test('an unknown address is slowed down like a known one', async () => {
    const guess = () => tryIn(from('10.8.0.1'), { email: 'nobody-at-all@example.com', password: 'wrong password' })
    for (let i = 0; i < 5; i++) expect((await guess()).status).toBe(401)
    expect((await guess()).status).toBe(429)
  })
})

describe('forms that no page of ours in this browser made are refused', () => {
  const post = async (headers: Record<string, string>) => {
    const browser = new Browser({ 'x-forwarded-for': '10.9.0.1' })
    const page = await openForm(browser)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const cookie = page.headers.getSetCookie()[0]?.split(';')[0] ?? ''
    const form = { csrf, returnTo: `${idp.url}/`, email: ana.email, password: ana.password }
    const { status, text } = await idp.send('POST /sign-in', new URLSearchParams(form).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
      cookie,
      ...headers,
    })
    return { status, text }
  }

  test('without a cookie, which says to allow them; opening the page again would not help', async () => {
    const refused = await post({ cookie: '' })
    expect(refused.status).toBe(403)
    expect(refused.text).toContain('Allow cookies for this site')
    const outdated = await post({ cookie: `before_${new URL(idp.url).port}=${'x'.repeat(43)}` })
    expect(outdated.status).toBe(403)
    expect(outdated.text).toContain('This form is out of date')
  })

  test('by their Origin, null included', async () => {
    expect((await post({ origin: 'https://evil.example.com' })).status).toBe(403)
    expect((await post({ origin: 'null' })).status).toBe(403)
    expect((await post({ 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await post({ 'sec-fetch-site': 'same-site' })).status).toBe(403)
    expect((await post({ origin: idp.url, 'sec-fetch-site': 'same-origin' })).status).toBe(303)
  })

  test('without the cookie that the token is bound to, or with another', async () => {
    expect((await post({ cookie: '' })).status).toBe(403)
    const { port } = new URL(idp.url)
    expect((await post({ cookie: `before_${port}=${'x'.repeat(43)}` })).status).toBe(403)
    const refused = await post({ cookie: '' })
    expect(refused.text).toContain('<!doctype html>')
  })

  test('with a token for another place to return to', async () => {
    const browser = from('10.9.0.2')
    const page = await openForm(browser)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const form = { csrf, returnTo: `${idp.url}/device`, email: ana.email, password: ana.password }
    expect((await browser.visit(`${idp.url}/sign-in`, form)).status).toBe(403)
  })
})

describe('where sign-in leads', () => {
  test.each([
    'https://evil.example.com/',
    '//evil.example.com/',
    '/\\evil.example.com/',
    '\\\\evil.example.com',
    'https:evil.example.com',
    'javascript:alert(1)',
    'data:text/html,x',
    'http://user@localhost/',
    '/oauth2/token',
    '/oauth2/authorize/../../evil',
    '/%2e%2e//evil.example.com',
    'http://localhost:1/oauth2/authorize?x',
    `/sign-out`,
    'x\0y',
  ])('%j leads home', async (returnTo) => {
    const browser = from('10.10.0.1')
    const page = await openForm(browser, returnTo)
    expect(page.body).toContain(`name="returnTo" value="${idp.url}/"`)
    const done = await idp.signIn(browser, page, ana)
    expect(done).toMatchObject({ status: 303, location: `${idp.url}/` })
  })

  test.each(['/device?user_code=ABCD-EFGH', '/device', '/oauth2/authorize?client_id=x'])(
    '%s is resumed',
    async (path) => {
      const browser = from('10.10.0.2')
      const done = await idp.signIn(browser, await openForm(browser, path), ana)
      expect(done.location).toBe(`${idp.url}${path}`)
    },
  )
})

describe('the end of sessions', () => {
  test('signing out takes a click, and ends this session only', async () => {
    const [here, there] = [await idp.signedIn(ana), await idp.signedIn(ana)]
    const page = await here.visit(`${idp.url}/sign-out`)
    expect(page.body).toContain(ana.email)
    expect((await here.visit(`${idp.url}/sign-out`, { csrf: 'x' })).status).toBe(403)
    expect((await here.visit(`${idp.url}/`)).status).toBe(200)
    const done = await here.submit(page, {})
    expect(done.body).toContain('You are signed out')
    expect((await here.visit(`${idp.url}/`)).location).toBe(`${idp.url}/sign-in`)
    expect((await there.visit(`${idp.url}/`)).status).toBe(200)
  })

  test('14 days without a visit end it, and so do 90 days with', async () => {
    const DAY = 86_400_000
    const [idle, busy] = [await idp.signedIn(ana), await idp.signedIn(ana)]
    for (let day = 0; day < 89; day += 10) {
      idp.advance(10 * DAY)
      if (day < 80) expect((await busy.visit(`${idp.url}/`)).status).toBe(200)
      if (day === 10) expect((await idle.visit(`${idp.url}/`)).status).toBe(302)
    }
    expect((await busy.visit(`${idp.url}/`)).status).toBe(302)
  })

  test('of two who suspend an account at the same time one is on record', async () => {
    const bob = await idp.person()
    const suspend = () => suspendUser(idp.deps, bob.userId)
    await holding(idp.databaseUrl, (sql) => sql`select from users where id = ${bob.userId} for no key update`, [
      suspend,
      suspend,
    ])
    expect(await idp.changesOf(bob)).toEqual(['operator user.suspended'])
  })

  test('a suspension that Postgres refuses at the commit is not on record', async () => {
    const bob = await idp.person()
    const accept = await refuseCommits(idp, 'users', 'id', bob.userId)
    onTestFinished(accept)
    await expect(suspendUser(idp.deps, bob.userId)).rejects.toThrow('refused')
    expect(await idp.changesOf(bob)).toEqual([])
  })

  test('suspension ends every session; the right password is told so, the wrong one is not', async () => {
    const bob = await idp.person()
    const browser = await idp.signedIn(bob)
    await suspendUser(idp.deps, bob.userId)
    expect((await browser.visit(`${idp.url}/`)).location).toBe(`${idp.url}/sign-in`)
    expect((await tryIn(from('10.11.0.1'), { ...bob, password: 'wrong password' })).status).toBe(401)
    const refused = await tryIn(from('10.11.0.2'), bob)
    expect(refused.status).toBe(403)
    expect(refused.body).toContain('suspended')
    await restoreUser(idp.deps, bob.userId)
    expect((await browser.visit(`${idp.url}/`)).location).toBe(`${idp.url}/sign-in`)
    expect((await tryIn(from('10.11.0.3'), bob)).status).toBe(303)
  })

  test('deletion does as well, and the account reads like one that never was', async () => {
    const bob = await idp.person()
    const browser = await idp.signedIn(bob)
    await deleteUser(idp.deps, bob.userId)
    expect((await browser.visit(`${idp.url}/`)).location).toBe(`${idp.url}/sign-in`)
    expect((await tryIn(from('10.12.0.1'), bob)).status).toBe(401)
  })
})

test('the page works without its script, which is a file; pages are never framed or kept, and load one style sheet of this site', async () => {
  const page = await openForm(new Browser())
  expect(page.body).toContain('<html lang="en"')
  expect(page.body).not.toMatch(/<script(?! type="module" src="[^"]+"><)|style=|onclick|http-equiv/)
  expect(page.headers.get('cache-control')).toBe('no-store')
  expect(page.headers.get('content-security-policy')).toBe(
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; script-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  )
  expect(page.headers.get('cross-origin-opener-policy')).toBe('same-origin')
  expect(page.headers.get('permissions-policy')).toMatch(
    /^publickey-credentials-create=\(self\), publickey-credentials-get=\(self\)(?:, [a-z-]+=\(\))+$/,
  )
  const href = /rel="stylesheet" href="([^"]+)"/.exec(page.body)?.[1] ?? ''
  const style = await idp.send(`GET ${href}`)
  expect(style.headers['content-type']).toBe('text/css; charset=utf-8')
  expect(style.headers['cache-control']).toContain('immutable')
})
