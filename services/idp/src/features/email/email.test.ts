import { Browser, type Visit } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linkIn, startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { ensureUser } from '../access/ensure-user.ts'

const HOUR_MS = 3_600_000

let idp: TestIdp
let lines: string[]
beforeAll(async () => {
  lines = []
  idp = await startTestIdp({}, { logTo: { write: (line) => void lines.push(line) } })
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
})
afterAll(() => idp.close())

const unverified = () => idp.person({ emailVerified: false })
const ask = async (browser: Browser) => browser.submit(await browser.visit(`${idp.url}/email`), {})
/** Mails a link to someone, as they would. */
async function linkOf(person: TestPerson): Promise<string> {
  expect((await ask(await idp.signedIn(person))).body).toContain('Look into your inbox')
  return linkIn((await idp.letters(person)).at(-1))
}
/** Opens a link and presses its button. */
async function confirm(link: string, browser = new Browser()): Promise<Visit> {
  return browser.submit(await browser.visit(link), {})
}
const isVerified = async ({ userId }: TestPerson) => {
  const [row] = await idp.deps.db.execute<{ is: boolean }>(
    `select email_verified as is from users where id = '${userId}'`,
  )
  return row?.is
}

describe('confirming an email address (identity.md, account site)', () => {
  test('goes by a mailed link and a click, in any browser; the change is audited once', async () => {
    const ana = await unverified()
    const home = await (await idp.signedIn(ana)).visit(`${idp.url}/`)
    expect(home.body).toContain('Not confirmed yet')
    const link = await linkOf(ana)
    expect(link).toMatch(new RegExp(`^${idp.url}/verify-email\\?token=[\\w-]{43}$`))
    const done = await confirm(link)
    expect(done).toMatchObject({ status: 200 })
    expect(done.body).toContain('Email address confirmed')
    expect(await isVerified(ana)).toBe(true)
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} user.email_verified`])
    const client = await idp.client()
    const { access_token } = await idp.tokens(client, ana)
    const userinfo = await idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${access_token}` })
    expect(userinfo.body.email_verified).toBe(true)
    const browser = await idp.signedIn(ana)
    expect((await browser.visit(`${idp.url}/`)).body).not.toContain('Not confirmed')
    expect((await browser.visit(`${idp.url}/email`)).body).toContain('nothing left to do')
  })

  test('the letter ends with the name of the platform and the host of the account site', async () => {
    const ana = await unverified()
    await linkOf(ana)
    const [letter = ''] = await idp.letters(ana)
    expect(letter.trimEnd().split('\r\n').slice(-3)).toEqual(['-- ', 'Platform', new URL(idp.url).host])
  })

  test('looking at the link, as mail scanners do, confirms nothing and does not use it up', async () => {
    const ana = await unverified()
    const link = await linkOf(ana)
    for (let i = 0; i < 3; i++) expect((await new Browser().visit(link)).status).toBe(200)
    expect(await isVerified(ana)).toBe(false)
    expect((await confirm(link)).status).toBe(200)
    expect(await isVerified(ana)).toBe(true)
  })

  test('a link works once, and takes the others of the user with it', async () => {
    const ana = await unverified()
    const [first, second] = [await linkOf(ana), await linkOf(ana)]
    const browser = new Browser()
    const page = await browser.visit(first)
    expect((await browser.submit(page, {})).status).toBe(200)
    expect((await browser.submit(page, {})).status).toBe(400)
    expect((await new Browser().visit(first)).status).toBe(400)
    expect((await new Browser().visit(second)).body).toContain('no longer works')
  })

  test('of ten uses at once one wins, and of ten links at once too', async () => {
    const ana = await unverified()
    const link = await linkOf(ana)
    const browser = new Browser()
    const page = await browser.visit(link)
    const uses = await Promise.all(Array.from({ length: 10 }, () => browser.submit(page, {})))
    expect(uses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(9).fill(400)])
    const bob = await unverified()
    const links = [await linkOf(bob), await linkOf(bob), await linkOf(bob), await linkOf(bob)]
    const pages = await Promise.all(links.map((other) => browser.visit(other)))
    const others = await Promise.all(pages.map((other) => browser.submit(other, {})))
    expect(others.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400, 400, 400])
    expect(await idp.changesOf(bob)).toHaveLength(1)
  })

  test('it works for 24 hours and not longer', async () => {
    const [ana, bob] = [await unverified(), await unverified()]
    const [early, late] = [await linkOf(ana), await linkOf(bob)]
    const browser = new Browser()
    const page = await browser.visit(late)
    idp.advance(24 * HOUR_MS - 60_000)
    expect((await confirm(early)).status).toBe(200)
    idp.advance(120_000)
    expect((await new Browser().visit(late)).status).toBe(400)
    expect((await browser.submit(page, {})).status).toBe(400)
    expect(await isVerified(bob)).toBe(false)
  })

  test('it confirms the address that it was mailed to, and no later one', async () => {
    const ana = await unverified()
    const link = await linkOf(ana)
    await idp.deps.db.execute(`update users set email = 'other-${ana.email}' where id = '${ana.userId}'`)
    expect((await confirm(link)).status).toBe(400)
    expect(await isVerified(ana)).toBe(false)
  })

  test('a click without its CSRF token, or with that of another link, is refused', async () => {
    const [ana, bob] = [await unverified(), await unverified()]
    const [link, other] = [await linkOf(ana), await linkOf(bob)]
    const token = new URL(link).searchParams.get('token') ?? ''
    const browser = new Browser()
    const page = await browser.visit(other)
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    for (const given of ['', csrf])
      expect((await browser.visit(`${idp.url}/verify-email`, { token, csrf: given })).status).toBe(403)
    expect(await isVerified(ana)).toBe(false)
    expect((await confirm(link)).status).toBe(200)
  })

  test('an unknown token, none, and one for something else read the same', async () => {
    const ana = await unverified()
    const link = await linkOf(ana)
    await idp.deps.db.execute(`update one_time_links set purpose = 'set-password' where user_id = '${ana.userId}'`)
    for (const url of [link, `${idp.url}/verify-email`, `${idp.url}/verify-email?token=x%00`])
      expect(await new Browser().visit(url)).toMatchObject({ status: 400, body: expect.stringContaining('no longer') })
  })
})

describe('asking for a link', () => {
  test('takes a session and its CSRF token', async () => {
    const ana = await unverified()
    const stranger = new Browser()
    expect((await stranger.visit(`${idp.url}/email`)).location).toContain('/sign-in?returnTo=')
    expect((await stranger.visit(`${idp.url}/email`, { csrf: 'x' })).location).toContain('/sign-in?returnTo=')
    const browser = await idp.signedIn(ana)
    const foreign = await (await idp.signedIn(await unverified())).visit(`${idp.url}/email`)
    const csrf = /name="csrf" value="([^"]+)"/.exec(foreign.body)?.[1] ?? ''
    for (const token of ['', csrf]) expect((await browser.visit(`${idp.url}/email`, { csrf: token })).status).toBe(403)
    expect(await idp.letters(ana)).toEqual([])
  })

  test('is good for five in an hour; the sixth is 429 and mails nothing', async () => {
    const ana = await unverified()
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/email`)
    const answers = await Promise.all(Array.from({ length: 6 }, () => browser.submit(page, {})))
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 200, 200, 200, 429])
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.headers.get('retry-after')).toBe('3600')
    expect(refused?.body).toContain('Wait 60 minutes')
    expect(await idp.letters(ana)).toHaveLength(5)
    idp.advance(-2_000)
    expect((await ask(browser)).body, 'by a clock that is behind').toContain('Wait 60 minutes')
    idp.advance(HOUR_MS + 2_000)
    expect((await ask(browser)).status).toBe(200)
  })

  test('a confirmed address gets no letter', async () => {
    const ana = await unverified()
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/email`)
    await ensureUser(idp.deps, { email: ana.email, emailVerified: true })
    expect((await browser.submit(page, {})).location).toBe(`${idp.url}/email`)
    expect(await idp.letters(ana)).toEqual([])
  })

  test('a server that does not take the letter breaks no page; the log has neither address nor link', async () => {
    const away = await startTestIdp({ MAIL_URL: 'smtp://127.0.0.1:1' }, { logTo: { write: (l) => void lines.push(l) } })
    const ana = await away.person({ emailVerified: false })
    const browser = await away.signedIn(ana)
    const answer = await browser.submit(await browser.visit(`${away.url}/email`), {})
    expect(answer.body).toContain('Look into your inbox')
    await away.close()
    const log = lines.join('')
    expect(log).toContain('mail to confirm an address')
    expect(log).toContain('mail written')
    expect(log).not.toMatch(/token=|@example\.com/)
  })

  test('without MAIL_URL the page says whom to ask instead', async () => {
    const silent = await startTestIdp({ MAIL_URL: '' })
    const ana = await silent.person({ emailVerified: false })
    const page = await (await silent.signedIn(ana)).visit(`${silent.url}/email`)
    expect(page.body).toContain('Ask whoever runs it')
    expect(page.body).not.toContain('<form')
    await silent.close()
  })
})

test('only a hash of a link is kept', async () => {
  const ana = await unverified()
  const token = new URL(await linkOf(ana)).searchParams.get('token') ?? ''
  const rows = await idp.deps.db.execute('select row_to_json(one_time_links)::text as row from one_time_links')
  expect(rows.length).toBeGreaterThan(0)
  expect(JSON.stringify(rows)).not.toContain(token)
})
