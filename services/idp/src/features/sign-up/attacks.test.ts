// engines: postgres
import type { Browser, Visit } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  accountsOf,
  askForCode,
  codeIn,
  lastCode,
  NAMES,
  newAddress,
  type Newcomer,
  PASSWORD,
  proveAddress,
  signUp,
  signUpUrl,
  stranger,
  withPassword,
} from '../../../test/come-in.ts'
import { raceFifty } from '../../../test/race-fifty.ts'
import { readEverything } from '../../../test/read-everything.ts'
import { linkIn, startTestIdp, type TestIdp } from '../../../test/start.ts'
import { createUser } from '../accounts/accounts.ts'

const HOUR_MS = 3_600_000
const WRONG = '0000-0000'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp({ SIGN_UP: 'open' })
  // Limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
})
afterAll(() => idp.close())

const linkTo = async (email: string): Promise<string> => linkIn((await idp.letters({ email })).at(-1))
const statusesOf = (visits: Visit[]): number[] => visits.map(({ status }) => status).toSorted((a, b) => a - b)
const isWaiting = async (browser: Browser): Promise<boolean> =>
  (await browser.visit(`${idp.url}/sign-up/name`)).location === `${idp.url}/sign-up/code`

describe('attacks on the code of a sign-up (D114)', () => {
  test('guesses-six-times: the fifth wrong code ends it, and the right one is worth nothing after that', async () => {
    const { browser, page, email } = await askForCode(idp, newAddress())
    const code = await lastCode(idp, email)
    const guess = (text: string) => browser.submit(page, { code: text })
    for (let i = 0; i < 4; i++) expect((await guess(WRONG)).body).toContain('This is not the code of the last letter')
    expect((await guess(WRONG)).body).toContain('This code is over')
    expect((await guess(code)).body).toContain('This code is over')
    expect((await browser.visit(`${idp.url}/sign-up/code?code=${code}`)).status).toBe(400)
    expect((await browser.visit(`${idp.url}/sign-up/name`)).status).toBe(400)
    expect(await accountsOf(idp, email)).toEqual([])
  })

  test('guesses-six-times: the right code counts as the fifth, and fifty at once are no more than five', async () => {
    const patient = await askForCode(idp, newAddress())
    for (let i = 0; i < 4; i++) await patient.browser.submit(patient.page, { code: WRONG })
    const fifth = await patient.browser.submit(patient.page, { code: await lastCode(idp, patient.email) })
    expect(fifth.location).toBe(`${idp.url}/sign-up/name`)

    const { browser, page, email } = await askForCode(idp, newAddress())
    const answers = await raceFifty(
      idp,
      (sql) => sql`select 1 from sign_ups where email = ${email} for update`,
      () => browser.submit(page, { code: WRONG }),
    )
    expect(statusesOf(answers)).toEqual(Array<number>(50).fill(400))
    expect(answers.filter(({ body }) => body.includes('This is not the code'))).toHaveLength(4)
    const [row] = await idp.deps.db.execute(`select guesses from sign_ups where email = '${email}'`)
    expect(row).toEqual({ guesses: 5 })
  })

  test('guesses-from-another-browser: the right code is worth nothing in a browser that did not ask for it', async () => {
    const { browser, page, email } = await askForCode(idp, newAddress())
    const code = await lastCode(idp, email)
    // One that has begun nothing, one that has begun with the same address, and one with another.
    const idle = stranger()
    await idle.visit(signUpUrl(idp))
    const others = [await askForCode(idp, email), await askForCode(idp, newAddress())]
    for (const other of others) {
      expect((await other.browser.submit(other.page, { code })).body).toContain('This is not the code')
      expect(await isWaiting(other.browser)).toBe(true)
    }
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    expect((await idle.visit(`${idp.url}/sign-up/code`, { csrf, code })).status).toBe(403)
    // Those were no guesses of the browser that asked.
    const rows = await idp.deps.db.execute(`select guesses from sign_ups where email = '${email}' order by guesses`)
    expect([...rows]).toEqual([{ guesses: 0 }, { guesses: 1 }])
    expect((await browser.submit(page, { code })).location).toBe(`${idp.url}/sign-up/name`)
  })

  test('stranger-starts-owner-clicks: an owner who opens the link of a letter finishes nothing that a stranger began', async () => {
    const email = newAddress()
    const begun = await askForCode(idp, email, { returnTo: '/passkeys' })
    const link = await linkTo(email)
    const before = await readEverything(idp)
    const owner = stranger()
    const shown = await owner.visit(link)
    expect(shown.body).toContain('If you began nothing, close this page.')
    expect(await readEverything(idp)).toEqual(before)
    expect(await isWaiting(begun.browser)).toBe(true)
    // The owner has begun as well: the stranger's code does not fit theirs.
    const own = await askForCode(idp, email)
    const filledIn = await own.browser.visit(link)
    expect((await own.browser.submit(filledIn, {})).status).toBe(400)
    expect(await isWaiting(begun.browser)).toBe(true)
    expect(await accountsOf(idp, email)).toEqual([])
  })

  test('link-carries-a-device-code: a link that a stranger had mailed leads its reader to no device of the stranger', async () => {
    const { id } = await idp.client()
    const json = { 'content-type': 'application/json' }
    const { body } = await idp.send('POST /oauth2/device_authorization', { client_id: id, scope: 'openid' }, json)
    const { user_code: userCode } = body as { user_code: string }
    const email = newAddress()
    const begun = await askForCode(idp, email, { returnTo: `${idp.url}/device?user_code=${userCode}` })
    const [letter = ''] = await idp.letters({ email })
    expect(letter).not.toContain(userCode)
    expect(letter).not.toMatch(/returnTo|device/)
    // The owner opens it, signed out or in, and then creates the account for which it came.
    const owner = stranger()
    expect((await owner.visit(linkIn(letter))).body).not.toContain(userCode)
    expect((await (await idp.signedIn(await idp.person())).visit(linkIn(letter))).body).not.toContain(userCode)
    const { page } = await signUp(idp, email, { browser: owner })
    expect(page.location).toBe(`${idp.url}/`)
    expect(await isWaiting(begun.browser)).toBe(true)
  })

  test('scanner-opens-every-link: GET and HEAD of the links of all letters change nothing', async () => {
    const [email, owned] = [newAddress(), newAddress()]
    const begun = await askForCode(idp, email)
    await createUser(idp.deps, { email: owned })
    await askForCode(idp, owned)
    const code = await lastCode(idp, email)
    const before = await readEverything(idp)
    for (const link of [await linkTo(email), await linkTo(owned)]) {
      for (const method of ['HEAD', 'GET', 'GET', 'HEAD'])
        expect((await fetch(link, { method, redirect: 'manual' })).status).toBe(200)
      expect((await begun.browser.visit(link)).status).toBe(200)
    }
    expect(await readEverything(idp)).toEqual(before)
    expect((await begun.browser.submit(begun.page, { code })).location).toBe(`${idp.url}/sign-up/name`)
  })
})

describe('two tabs of one browser', () => {
  test('a form that says one address is refused once another one was proven beside it, and makes no account of either', async () => {
    const first = await proveAddress(idp, newAddress())
    const second = await proveAddress(idp, newAddress(), { browser: first.browser })
    expect((await first.browser.submit(first.page, NAMES, withPassword)).status).toBe(403)
    for (const { email } of [first, second]) expect(await accountsOf(idp, email)).toEqual([])
    expect((await second.browser.submit(second.page, NAMES, withPassword)).status).toBe(303)
    expect(await accountsOf(idp, second.email)).toHaveLength(1)
  })

  test('nor is there an account of the other address if it is proven while the form is under way', async () => {
    const { email, browser, page } = await proveAddress(idp, newAddress())
    const other = newAddress()
    const [answer] = await holding<[Visit]>(
      idp.databaseUrl,
      (sql) => sql`update sign_ups set email = ${other} where email = ${email}`,
      [() => browser.submit(page, NAMES, withPassword)],
    )
    expect(answer.status).toBe(400)
    for (const each of [email, other]) expect(await accountsOf(idp, each)).toEqual([])
  })
})

describe('attacks by number', () => {
  test('fifty-sign-ups-of-one-address: of fifty last forms at once, of five browsers, one makes the account (D114)', async () => {
    const email = newAddress()
    const proven: Newcomer[] = []
    for (let i = 0; i < 5; i++) proven.push(await proveAddress(idp, email))
    let sent = 0
    const answers = await raceFifty(
      idp,
      (sql) => sql`lock table users in share row exclusive mode`,
      () => {
        const { browser, page } = proven[sent++ % proven.length]!
        return browser.submit(page, NAMES, withPassword)
      },
    )
    expect(statusesOf(answers)).toEqual([303, ...Array<number>(49).fill(400)])
    const [userId = '', ...others] = await accountsOf(idp, email)
    expect(others).toEqual([])
    const signedUp = await idp.deps.db.execute(
      `select id from audit_events where action = 'user.signed_up' and subject = 'user:${userId}'`,
    )
    expect(signedUp).toHaveLength(1)
    await idp.signedIn({ userId, email, password: PASSWORD })
    // Whoever proved the address and came second learns that there is an account, and where to sign in.
    const late = answers.filter(({ body }) => body.includes('You have an account by now'))
    expect(late).toHaveLength(4)
    expect(late[0]?.headers.getSetCookie()).toEqual([])
  })

  test('letters-as-a-bomb: an address gets five letters in an hour, in whatever way it is written, and nothing tells so', async () => {
    const email = newAddress()
    const written = [email, email.toUpperCase(), ` ${email} `]
    for (let i = 0; i < 8; i++) expect((await askForCode(idp, written[i % written.length] ?? '')).page.status).toBe(200)
    expect(await idp.letters({ email })).toHaveLength(5)
    const owned = newAddress()
    await createUser(idp.deps, { email: owned })
    for (let i = 0; i < 7; i++) await askForCode(idp, owned)
    expect(await idp.letters({ email: owned })).toHaveLength(5)
    idp.advance(HOUR_MS)
    await askForCode(idp, email)
    expect(await idp.letters({ email })).toHaveLength(6)
  })

  test('letters-as-a-bomb: a network may ask thirty times in an hour; the next is 429 on the same page, and mails nobody', async () => {
    const browser = stranger()
    const page = await browser.visit(signUpUrl(idp))
    const emails = Array.from({ length: 31 }, () => newAddress())
    const answers = await Promise.all(emails.map((email) => browser.submit(page, { email })))
    expect(statusesOf(answers)).toEqual([...Array<number>(30).fill(303), 429])
    const refused = answers.findIndex(({ status }) => status === 429)
    expect(answers[refused]?.headers.get('retry-after')).toBe('3600')
    expect(answers[refused]?.body).toContain('Wait 60 minutes')
    expect(answers[refused]?.body).toContain(`value="${emails[refused]}"`)
    expect(await idp.letters({ email: emails[refused] ?? '' })).toEqual([])
    // It is the network that counts, and no other one.
    const [another, same] = [stranger(), stranger()]
    expect((await askForCode(idp, newAddress(), { browser: another })).page.status).toBe(200)
    Object.assign(same.headers, browser.headers)
    expect((await same.submit(await same.visit(signUpUrl(idp)), { email: newAddress() })).status).toBe(429)
    idp.advance(HOUR_MS)
    expect((await browser.submit(page, { email: newAddress() })).status).toBe(303)
  })
})

describe('case-and-unicode-twins: two ways of writing make one address', () => {
  test('case-and-unicode-twins: who has an account has it in any case, and under both names of the domain', async () => {
    const email = newAddress('xn--bcher-kva.example')
    // As earlier releases stored it.
    const stored = email.replace('p', 'P').replace('xn--bcher-kva', 'b\u00fccher')
    const { id } = await createUser(idp.deps, { email })
    await idp.deps.db.execute(`update users set email = '${stored}' where id = '${id}'`)
    await askForCode(idp, email)
    expect((await idp.letters({ email: stored })).map(codeIn)).toEqual([undefined])
    expect(await idp.letters({ email })).toEqual([])
  })

  test('case-and-unicode-twins: of two people who prove one address in two ways of writing, one gets the account', async () => {
    const domains: [string, string] = ['b\u00fccher.example', 'xn--bcher-kva.example']
    const local = newAddress().split('@')[0] ?? ''
    const first = await proveAddressAs(`${local}@${domains[1]}`, `${local.toUpperCase()}@B\u00dcCHER.example`)
    const second = await proveAddressAs(`${local}@${domains[1]}`, `${local}@bu\u0308cher.example`)
    expect((await first.browser.submit(first.page, NAMES, withPassword)).status).toBe(303)
    expect((await second.browser.submit(second.page, NAMES, withPassword)).body).toContain('You have an account by now')
    expect(await accountsOf(idp, `${local}@${domains[1]}`)).toHaveLength(1)
    expect(await accountsOf(idp, `${local}@${domains[0]}`)).toEqual([])
  })

  test.each([
    ['the Kelvin sign', '\u212aim@example.com'],
    ['a dotless i', 'pet\u0131r@example.com'],
    ['a fullwidth letter', '\uff41na@example.com'],
    ['a Cyrillic letter', '\u0430na@example.com'],
    ['an invisible one', 'a\u200bna@example.com'],
    ['a line that runs from right to left', 'ana\u202e@example.com'],
  ])(
    'case-and-unicode-twins: %s before the @ is refused, as letters that look alike are no address',
    async (_, email) => {
      const browser = stranger()
      expect((await browser.submit(await browser.visit(signUpUrl(idp)), { email })).status).toBe(400)
    },
  )
})

/** Proves an address that is typed in another way than letters are sent to it. */
async function proveAddressAs(email: string, typed: string): Promise<Newcomer> {
  const { browser, page } = await askForCode(idp, typed)
  const done = await browser.submit(page, { code: await lastCode(idp, email) })
  return { email, browser, page: await browser.follow(done, idp.url) }
}
