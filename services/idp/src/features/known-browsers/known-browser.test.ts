import { Browser } from '@platform/testkit/browser'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestIdp, type TestIdp, type TestPerson, linkIn } from '../../../test/start.ts'
import { attemptKey } from '../attempts/attempts.ts'
import { attempts } from '../attempts/table.ts'

const DAY_MS = 86_400_000
const WRONG = 'not the password'

let idp: TestIdp
let form: { csrf: string; before: string }
beforeAll(async () => {
  idp = await startTestIdp()
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  form = await openForm()
})
afterAll(() => idp.close())

/** Each attempt comes from a new network by default: addresses cost an attacker nothing. */
let networks = 0
const freshAddress = () => {
  networks++
  return `10.80.${networks >> 8}.${networks & 255}`
}

async function openForm() {
  const { text, headers } = await idp.send('GET /sign-in')
  const [before = ''] = [headers['set-cookie']].flat().map((line) => line?.split(';')[0] ?? '')
  return { csrf: /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '', before }
}

/** The last value that an answer sets for the cookie, in request format; undefined if it sets none. */
const knownIn = (lines: readonly string[]) => lines.findLast((line) => line.startsWith('known_'))?.split(';')[0]

interface From {
  address?: string
  /** The cookie of a known browser, in request format. */
  known?: string | undefined
}

async function attempt({ email, password }: TestPerson, { address = freshAddress(), known }: From = {}) {
  const body = new URLSearchParams({ csrf: form.csrf, returnTo: `${idp.url}/`, email, password }).toString()
  const { status, headers, text } = await idp.send('POST /sign-in', body, {
    'content-type': 'application/x-www-form-urlencoded',
    cookie: [form.before, ...(known === undefined ? [] : [known])].join('; '),
    'x-forwarded-for': address,
  })
  const cookies = headers['set-cookie'] as unknown as string[] | undefined
  return { status, text, retryAfter: headers['retry-after'], known: knownIn(cookies ?? []) }
}

const guess = (person: TestPerson, from: From = {}) => attempt({ ...person, password: WRONG }, from)

/** Signs in and returns the cookie by which the browser is known. */
async function knownTo(person: TestPerson, known?: string): Promise<string> {
  const done = await attempt(person, { known })
  if (done.known === undefined) throw new Error(`Sign-in answered ${done.status} and no cookie`)
  return done.known
}

/** Simulates a counter that has just admitted an attempt and begun its pause of a minute. */
async function pause(...counter: readonly string[]): Promise<void> {
  const time = idp.now()
  const row = { count: 40, since: time, blockedUntil: new Date(time.getTime() + 60_000), updatedAt: time }
  await idp.deps.db
    .insert(attempts)
    .values({ key: attemptKey('sign-in', ...counter), ...row })
    .onConflictDoUpdate({ target: attempts.key, set: row })
}

/** The state of an account under one guess a second. */
const besiege = ({ email }: TestPerson) => pause('account', email.toLowerCase())

describe('guesses of strangers do not keep the owner of an account out', () => {
  test('with one guess a second from fresh addresses, a browser that signed in before gets in 20 of 20 times', async () => {
    const ana = await idp.person()
    const address = freshAddress()
    let known = await knownTo(ana)
    for (let i = 0; i < 30; i++) expect((await guess(ana)).status).toBe(401)
    const answers: number[] = []
    for (let second = 1; second <= 140; second++) {
      idp.advance(1_000)
      await guess(ana)
      if (second % 7 !== 0) continue
      const done = await attempt(ana, { address, known })
      answers.push(done.status)
      known = done.known ?? known
    }
    expect(answers).toEqual(Array(20).fill(303))
  })

  test('any other browser is told when to come back, and what works until then', async () => {
    const ana = await idp.person()
    await besiege(ana)
    const paused = await attempt(ana)
    expect(paused.status).toBe(429)
    const seconds = Number(paused.retryAfter)
    expect(seconds).toBeGreaterThan(30)
    expect(seconds).toBeLessThanOrEqual(60)
    expect(paused.text).toContain(`Wait ${seconds} seconds`)
    expect(paused.text).toContain('passkey signs you in at once')
    expect(paused.text).toContain('Forgot your password?')
    idp.advance(seconds * 1_000)
    expect((await attempt(ana)).status).toBe(303)
  })

  test('an account that nobody has reads the same', async () => {
    const nobody = { userId: '', email: 'nobody-here@example.com', password: WRONG }
    await besiege(nobody)
    const own = await knownTo(await idp.person())
    for (const known of [undefined, own]) {
      const paused = await attempt(nobody, { known })
      expect(paused.status).toBe(429)
      expect(Number(paused.retryAfter)).toBeGreaterThan(30)
    }
  })

  test('nor from changing the password or removing the app', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    await besiege(ana)
    const wanted = 'a new and longer password'
    const page = await browser.visit(`${idp.url}/password`)
    const changed = await browser.submit(page, { current: ana.password, new: wanted, again: wanted })
    expect(changed.body).toContain('Password changed')
    await besiege(ana)
    const again = await browser.visit(`${idp.url}/sign-in?returnTo=/passkeys/add`)
    expect((await idp.signIn(browser, again, { ...ana, password: wanted })).status).toBe(303)
  })

  test('a password that was chosen by mail can be used at once, in the browser that chose it', async () => {
    const ana = await idp.person()
    const browser = new Browser({ 'x-forwarded-for': freshAddress() })
    await besiege(ana)
    await browser.submit(await browser.visit(`${idp.url}/forgot-password`), { email: ana.email })
    const password = 'a new and longer password'
    const page = await browser.visit(linkIn((await idp.letters(ana)).at(-1)))
    await browser.submit(page, { new: password, again: password })
    await besiege(ana)
    expect((await attempt({ ...ana, password })).status).toBe(429)
    expect((await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), { ...ana, password })).status).toBe(
      303,
    )
  })
})

describe('a known browser has a back-off of its own', () => {
  test('a copied cookie is good for five guesses; then its holder is a stranger like the others', async () => {
    const ana = await idp.person()
    const stolen = await knownTo(ana)
    await besiege(ana)
    for (let i = 0; i < 5; i++) expect((await guess(ana, { known: stolen })).status).toBe(401)
    // Continues to a pause that does not end during the test.
    for (let taken = 0; taken < 8;) {
      await besiege(ana)
      if ((await guess(ana, { known: stolen })).status === 401) taken++
      else idp.advance(1_000 * 2 ** taken)
    }
    await besiege(ana)
    const paused = await attempt(ana, { known: stolen })
    expect(paused.status).toBe(429)
    // Its own pause is longer, but as a stranger it may try again sooner.
    expect(Number(paused.retryAfter)).toBeLessThanOrEqual(60)
  })

  test('during its own pause it may still do what a stranger may', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    for (let i = 0; i < 5; i++) expect((await guess(ana, { known })).status).toBe(401)
    expect((await attempt(ana, { known })).status).toBe(303)
  })

  test('sixty guesses at once are not sixty free ones', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    await besiege(ana)
    const answers = await Promise.all(Array.from({ length: 60 }, () => guess(ana, { known })))
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(5)
  })

  test('success forgets its wrong ones, and none of those that strangers made', async () => {
    const ana = await idp.person()
    let known = await knownTo(ana)
    for (let i = 0; i < 10; i++) await guess(ana)
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 4; i++) expect((await guess(ana, { known })).status).toBe(401)
      known = await knownTo(ana, known)
    }
    const key = attemptKey('sign-in', 'account', ana.email.toLowerCase())
    const [row] = await idp.deps.db.select().from(attempts).where(eq(attempts.key, key))
    expect(row?.count).toBe(10)
  })

  test('a flood from its network still holds it up', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    const address = freshAddress()
    await pause('network', address)
    expect((await attempt(ana, { address, known })).status).toBe(429)
    expect((await attempt(ana, { known })).status).toBe(303)
  })
})

describe('a cookie gives nothing', () => {
  const isExempt = async (person: TestPerson, known: string) => {
    await besiege(person)
    return (await attempt(person, { known })).status === 303
  }

  test('that is forged, cut, changed or of another service', async () => {
    const ana = await idp.person()
    const own = await knownTo(ana)
    const [name = '', value = ''] = own.split('=')
    const other = await startTestIdp()
    const foreign = other.deps.sealer.seal('{"content":{},"until":9e15}', 'ticket\nknown-browser\n')
    await other.close()
    for (const forged of [
      'x',
      `${value.slice(0, -4)}AAAA`,
      value.slice(0, -1),
      `test.${foreign.ciphertext.toString('base64url')}`,
      Buffer.from(JSON.stringify({ userId: ana.userId })).toString('base64url'),
    ])
      expect(await isExempt(ana, `${name}=${forged}`)).toBe(false)
    expect(await isExempt(ana, own)).toBe(true)
  })

  test('to another account', async () => {
    const [ana, eve] = [await idp.person(), await idp.person()]
    expect(await isExempt(ana, await knownTo(eve))).toBe(false)
  })

  test('that was sealed for something else', async () => {
    const ana = await idp.person()
    const page = await (await idp.signedIn(ana)).visit(`${idp.url}/authenticator/add`)
    const ticket = /name="ticket" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const { port } = new URL(idp.url)
    expect(await isExempt(ana, `known_${port}=${ticket}`)).toBe(false)
  })

  test('half a year later', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    idp.advance(179 * DAY_MS)
    expect(await isExempt(ana, known)).toBe(true)
    idp.advance(DAY_MS)
    expect(await isExempt(ana, known)).toBe(false)
  })

  test('once the password is another one', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    const browser = await idp.signedIn(ana)
    const password = 'a new and longer password'
    const page = await browser.visit(`${idp.url}/password`)
    await browser.submit(page, { current: ana.password, new: password, again: password })
    expect(await isExempt({ ...ana, password }, known)).toBe(false)
  })

  test('once its owner signed out everywhere, also with the same password', async () => {
    const ana = await idp.person()
    const known = await knownTo(ana)
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/sessions`)
    expect((await browser.visit(`${idp.url}/sessions/end-all`, { csrf: 'x' })).status).toBe(403)
    expect(await isExempt(ana, known)).toBe(true)
    idp.advance(1) // what the cookie is bound to is the moment when the account last changed
    const csrf = /action="[^"]+end-all">\s*<input type="hidden" name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    expect((await browser.visit(`${idp.url}/sessions/end-all`, { csrf })).body).toContain('signed out everywhere')
    expect(await isExempt(ana, known)).toBe(false)
  })
})

describe('the cookie', () => {
  test('is out of reach of scripts and other sites, lasts half a year, says nothing to anyone, and outlives signing out', async () => {
    const ana = await idp.person()
    const browser = new Browser({ 'x-forwarded-for': freshAddress() })
    const done = await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), ana)
    const cookie = done.headers.getSetCookie().find((line) => line.startsWith('known_')) ?? ''
    expect(cookie).toMatch(/^known_\d+=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=15552000$/)
    expect(cookie).not.toContain(ana.userId)
    await browser.submit(await browser.visit(`${idp.url}/sign-out`), {})
    await besiege(ana)
    expect((await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), ana)).status).toBe(303)
  })

  test('knows five accounts of one browser, those that signed in last, and grows no further', async () => {
    const people = await Promise.all(Array.from({ length: 6 }, () => idp.person()))
    let known: string | undefined
    for (const person of people) known = await knownTo(person, known)
    expect((known ?? '').length).toBeLessThan(2_000)
    expect(known?.split('~')).toHaveLength(5)
    const [first, ...others] = people as [TestPerson, ...TestPerson[]]
    // Each success moves its account to the end: the previous cookie is used for all of them.
    for (const person of others) {
      await besiege(person)
      expect((await attempt(person, { known })).status).toBe(303)
    }
    await besiege(first)
    expect((await attempt(first, { known })).status).toBe(429)
  }, 30_000)
})
