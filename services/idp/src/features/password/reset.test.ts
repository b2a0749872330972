import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Browser } from '@platform/testkit/browser'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linkIn, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'
import { createUser } from '../accounts/accounts.ts'

const NEW = 'a new and longer password'
const MINUTE_MS = 60_000

let idp: TestIdp
let client: TestClient
let networks = 0
const lines: string[] = []
beforeAll(async () => {
  idp = await startTestIdp({}, { logTo: { write: (line) => void lines.push(line) } })
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
  client = await idp.client()
})
afterAll(() => idp.close())

/** From a separate network, since requests from one network count together. */
function stranger(): Browser {
  networks++
  return new Browser({ 'x-forwarded-for': `10.30.${networks >> 8}.${networks & 255}` })
}
const forget = async (email: string, browser = stranger()) =>
  browser.submit(await browser.visit(`${idp.url}/forgot-password`), { email })
async function linkOf(person: TestPerson): Promise<string> {
  expect((await forget(person.email)).status).toBe(200)
  return linkIn((await idp.letters(person)).at(-1))
}
const setPassword = async (link: string, wanted: string, again = wanted, browser = new Browser()) =>
  browser.submit(await browser.visit(link), { new: wanted, again })
const trySignIn = async (person: TestPerson, password: string) => {
  const browser = stranger()
  const page = await browser.visit(`${idp.url}/sign-in`)
  return (await idp.signIn(browser, page, { ...person, password })).status === 303
}
const sorted = (answers: { status: number }[]) => answers.map(({ status }) => status).toSorted((a, b) => a - b)

describe('resetting a forgotten password (identity.md, account site)', () => {
  test('goes from the sign-in page by a mailed link; afterwards only the new password signs in', async () => {
    const ana = await idp.person()
    expect((await stranger().visit(`${idp.url}/sign-in`)).body).toContain(`href="${idp.url}/forgot-password"`)
    const link = await linkOf(ana)
    expect(link).toMatch(new RegExp(`^${idp.url}/set-password\\?token=[\\w-]{43}$`))
    const done = await setPassword(link, NEW)
    expect(done.body).toContain('Password saved')
    expect([await trySignIn(ana, ana.password), await trySignIn(ana, NEW)]).toEqual([false, true])
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} user.password_reset`])
  })

  test('ends all sessions, families and pending codes of the user, and of nobody else', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [hers, his] = [await idp.signedIn(ana), await idp.signedIn(bob)]
    const tokens = await idp.tokens(client, ana)
    const code = await idp.code(client, ana)
    await setPassword(await linkOf(ana), NEW, NEW, hers)
    expect((await hers.visit(`${idp.url}/`)).status).toBe(302)
    expect((await his.visit(`${idp.url}/`)).status).toBe(200)
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    const refresh = { grant_type: 'refresh_token', client_id: client.id, refresh_token: tokens.refresh_token ?? '' }
    expect(await idp.token(refresh)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(client, code))).toMatchObject(refused)
  })

  test('signs nobody in', async () => {
    const browser = stranger()
    const done = await setPassword(await linkOf(await idp.person()), NEW, NEW, browser)
    expect(done.headers.getSetCookie().filter((line) => !line.startsWith('known_'))).toEqual([])
    expect((await browser.visit(`${idp.url}/`)).status).toBe(302)
  })

  test('a link works for 30 minutes and not longer', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [early, late] = [await linkOf(ana), await linkOf(bob)]
    const browser = new Browser()
    const page = await browser.visit(late)
    idp.advance(29 * MINUTE_MS)
    expect((await setPassword(early, NEW)).status).toBe(200)
    idp.advance(2 * MINUTE_MS)
    expect((await browser.submit(page, { new: NEW, again: NEW })).body).toContain('no longer works')
    expect((await new Browser().visit(late)).status).toBe(400)
    expect(await trySignIn(bob, bob.password)).toBe(true)
  })

  test('a link that gives its token twice is refused by name, and stays good (D116)', async () => {
    const ana = await idp.person()
    const [first, second] = [await linkOf(ana), await linkOf(ana)]
    const page = await new Browser().visit(`${first}&token=${new URL(second).searchParams.get('token')}`)
    expect(page.status).toBe(400)
    expect(page.body).toContain('The parameter token is sent more than once.')
    expect((await setPassword(first, NEW)).status).toBe(200)
  })

  test('a link works once, and takes the others of the user with it', async () => {
    const ana = await idp.person()
    const [first, second] = [await linkOf(ana), await linkOf(ana)]
    const browser = new Browser()
    const page = await browser.visit(first)
    expect((await browser.submit(page, { new: NEW, again: NEW })).status).toBe(200)
    expect((await browser.submit(page, { new: `${NEW}!`, again: `${NEW}!` })).status).toBe(400)
    expect((await new Browser().visit(second)).status).toBe(400)
    expect(await trySignIn(ana, NEW)).toBe(true)
  })

  test('of ten uses of one link at once one wins, and its password is the one that stands', async () => {
    const ana = await idp.person()
    const link = await linkOf(ana)
    const browser = new Browser()
    const page = await browser.visit(link)
    const wanted = Array.from({ length: 10 }, (_, i) => `${NEW} ${i}`)
    const uses = await Promise.all(wanted.map((password) => browser.submit(page, { new: password, again: password })))
    expect(sorted(uses)).toEqual([200, ...Array<number>(9).fill(400)])
    const winner = wanted[uses.findIndex(({ status }) => status === 200)] ?? ''
    expect(await trySignIn(ana, winner)).toBe(true)
    expect(await idp.changesOf(ana)).toHaveLength(1)
  })

  test.each<[string, (ana: TestPerson) => [wanted: string, again?: string], string]>([
    ['a repetition that differs', () => [NEW, `${NEW}!`], 'not the same'],
    ['seven characters', () => ['seven77'], 'at least 8 characters'],
    ['1,025 bytes', () => ['x'.repeat(1_025)], 'at most 1024 bytes'],
    ['the email address', ({ email }) => [email.toUpperCase()], 'your email address'],
    ['one that many use', () => ['iloveyou'], 'attackers try first'],
    ['the family name', () => ['silvasilva'], 'made of your name'],
  ])('refuses %s and says why; the link goes on', async (_, formOf, words) => {
    const ana = await idp.person()
    const link = await linkOf(ana)
    const refused = await setPassword(link, ...formOf(ana))
    expect(refused.status).toBe(400)
    expect(refused.body).toContain('role="alert"')
    expect(refused.body).toContain(words)
    expect(await idp.changesOf(ana)).toEqual([])
    expect((await setPassword(link, NEW)).status).toBe(200)
  })

  test('a form without its CSRF token, or with that of another link, is refused', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [link, other] = [await linkOf(ana), await linkOf(bob)]
    const token = new URL(link).searchParams.get('token') ?? ''
    const browser = new Browser()
    const csrf = /name="csrf" value="([^"]+)"/.exec((await browser.visit(other)).body)?.[1] ?? ''
    for (const given of ['', csrf]) {
      const form = { token, csrf: given, new: NEW, again: NEW }
      expect((await browser.visit(`${idp.url}/set-password`, form)).status).toBe(403)
    }
    expect((await browser.visit(`${idp.url}/forgot-password`, { email: ana.email })).status).toBe(403)
    expect(await idp.letters(ana)).toHaveLength(1)
    expect((await setPassword(link, NEW)).status).toBe(200)
  })

  test('a link to confirm an address sets no password', async () => {
    const ana = await idp.person()
    const link = await linkOf(ana)
    await idp.deps.db.execute(`update one_time_links set purpose = 'verify-email' where user_id = '${ana.userId}'`)
    expect((await new Browser().visit(link)).status).toBe(400)
  })
})

describe('who has an account shows neither in words nor in time', () => {
  test('the answer is the same for a known address, an unknown one and one that is none', async () => {
    const ana = await idp.person()
    const answers = []
    for (const email of [ana.email, 'nobody@example.com', 'no address', '']) {
      const { status, body } = await forget(email)
      answers.push({ status, body: body.replaceAll(`<strong>${email}</strong>`, 'EMAIL') })
    }
    expect(answers[0]).toMatchObject({ status: 200, body: expect.stringContaining('If there is an account') })
    for (const answer of answers) expect(answer).toEqual(answers[0])
    expect(await idp.letters({ email: 'nobody@example.com' })).toEqual([])
  })

  test('the answer comes before an account is looked up, so nothing in it can depend on one', async () => {
    const ana = await idp.person()
    const sql = postgres(idp.databaseUrl, { max: 1, onnotice: () => {} })
    await sql.begin(async (tx) => {
      await tx`lock table users in access exclusive mode`
      for (const email of [ana.email, 'nobody@example.com'])
        expect((await forget(email)).body).toContain('If there is an account')
    })
    await sql.end()
    expect(await idp.letters(ana)).toHaveLength(1)
  })

  test('the answer does not wait for a mail server that never says a word', async () => {
    const sockets: Socket[] = []
    const server = createServer((socket) => void sockets.push(socket))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const stalling = await startTestIdp({ MAIL_URL: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}` })
    const ana = await stalling.person()
    const browser = new Browser()
    const page = await browser.visit(`${stalling.url}/forgot-password`)
    const connected = once(server, 'connection')
    expect((await browser.submit(page, { email: ana.email })).body).toContain('If there is an account')
    await connected
    for (const socket of sockets) socket.destroy()
    await stalling.close()
    server.close()
  })

  test('a server that takes no letter breaks no page, and the log has neither address nor link', async () => {
    const away = await startTestIdp(
      { MAIL_URL: 'smtp://127.0.0.1:1' },
      { logTo: { write: (line) => void lines.push(line) } },
    )
    const ana = await away.person()
    const browser = new Browser()
    const answer = await browser.submit(await browser.visit(`${away.url}/forgot-password`), { email: ana.email })
    expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('If there is an account') })
    await away.close()
    await linkOf(await idp.person())
    const log = lines.join('')
    expect(log).toContain('"what":"mail to reset a password"')
    expect(log).toContain('mail written')
    expect(log).not.toMatch(/token=|@example\.com/)
  })

  test('a suspended account gets no letter', async () => {
    const ana = await idp.person()
    await suspendUser(idp.deps, ana.userId)
    expect((await forget(ana.email)).status).toBe(200)
    expect(await idp.letters(ana)).toEqual([])
  })

  test('an account that has no password yet gets one by it', async () => {
    const email = 'invited@example.com'
    const { id } = await createUser(idp.deps, { email })
    const invited = { userId: id, email, password: '' }
    expect((await setPassword(await linkOf(invited), NEW)).status).toBe(200)
    expect(await trySignIn(invited, NEW)).toBe(true)
  })
})

describe('asking is limited', () => {
  test('an address gets five letters in an hour, and nothing tells so; those it got work on', async () => {
    const ana = await idp.person()
    for (let i = 0; i < 7; i++) expect((await forget(i % 2 ? ana.email.toUpperCase() : ana.email)).status).toBe(200)
    const links = async () =>
      (await idp.letters(ana)).filter((letter) => letter.includes('Subject: Choose a new password'))
    const letters = await links()
    expect(letters).toHaveLength(5)
    expect((await setPassword(linkIn(letters[0]), NEW)).status).toBe(200)
    idp.advance(60 * MINUTE_MS)
    await forget(ana.email)
    expect(await links()).toHaveLength(6)
  })

  test('a network may ask thirty times in an hour; the next is 429', async () => {
    const browser = stranger()
    const page = await browser.visit(`${idp.url}/forgot-password`)
    const answers = await Promise.all(
      Array.from({ length: 31 }, (_, i) => browser.submit(page, { email: `nobody-${i}@example.com` })),
    )
    expect(sorted(answers)).toEqual([...Array<number>(30).fill(200), 429])
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.headers.get('retry-after')).toBe('3600')
    expect(refused?.body).toContain('Wait 60 minutes')
    idp.advance(60 * MINUTE_MS)
    expect((await browser.submit(page, { email: 'nobody@example.com' })).status).toBe(200)
  })
})

test('without MAIL_URL the page says whom to ask, and a form sent all the same changes nothing', async () => {
  const silent = await startTestIdp({ MAIL_URL: '' })
  const page = await new Browser().visit(`${silent.url}/forgot-password`)
  expect(page.body).toContain('Ask whoever runs it')
  expect(page.body).not.toContain('<form')
  await silent.close()
})
