import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { auditEvents } from '@platform/service/audit-table'
import { Browser, formsOn } from '@platform/testkit/browser'
import { freePort } from '@platform/testkit/free-port'
import { eq } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Operated, refused, startOperated } from '../../../test/operator.ts'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import { linkIn, type TestIdp } from '../../../test/start.ts'

const PASSWORD = 'several words that I chose'
const DAY_MS = 86_400_000
const names = { givenName: 'Ada', familyName: 'Lovelace' }
const chosen = { ...names, new: PASSWORD, again: PASSWORD }

let operated: Operated
let idp: TestIdp
let run: Operated['run']
let runJson: Operated['runJson']
let mailFolder: string
beforeAll(async () => {
  operated = await startOperated()
  ;({ idp, run, runJson } = operated)
  mailFolder = await mkdtemp(join(tmpdir(), 'platform-test-mail-'))
})
afterAll(async () => {
  await idp.close()
  await rm(mailFolder, { recursive: true, force: true })
})

let people = 0
interface Invited {
  id: string
  email: string
  link: string
}
async function invite(words = ''): Promise<Invited> {
  const email = `ada${++people}@example.com`
  return { ...((await runJson(`user invite ${email} ${words}`)) as Invited), email }
}
const take = async (link: string, fields = chosen, way = 'password', browser = new Browser()) =>
  browser.submit(await browser.visit(link), fields, { name: 'way', value: way })
const changesOf = ({ id }: Invited) => idp.changesOf({ userId: id })
const statusOf = async (link: string) => (await new Browser().visit(link)).status

describe('user invite, an invitation to the platform (accounts.md, Invitations)', () => {
  test('makes an account whose owner chooses names and a password by a link, once, and is signed in', async () => {
    const ada = await invite('--given-name A.')
    expect(ada.link).toMatch(new RegExp(`^${idp.url}/welcome\\?token=[\\w-]{43}$`))
    const browser = new Browser()
    const page = await browser.visit(ada.link)
    expect(formsOn(page)[0]?.filledIn).toMatchObject({ givenName: 'A.', familyName: '' })
    const done = await browser.submit(page, chosen, { name: 'way', value: 'password' })
    expect([done.status, done.location]).toEqual([303, `${idp.url}/`])
    expect((await browser.visit(`${idp.url}/`)).body).toContain('Ada')
    expect((await browser.submit(page, chosen)).status).toBe(400)
    expect(await statusOf(ada.link)).toBe(400)
    expect(await idp.signedIn({ userId: ada.id, email: ada.email, password: PASSWORD })).toBeDefined()
    expect(await runJson(`user show ${ada.id}`)).toMatchObject({ ...names, emailVerified: true })
    expect(await changesOf(ada)).toEqual(['operator user.invited', `user:${ada.id} user.welcomed`])
  })

  test('mails the link as well before it ends, and writes neither address nor token down', async () => {
    const email = `ada${++people}@example.com`
    const { link, isMailed, id } = await runJson(`user invite ${email}`, { MAIL_URL: pathToFileURL(mailFolder).href })
    const letters = await Promise.all(
      (await readdir(mailFolder)).map((name) => readFile(join(mailFolder, name), 'utf8')),
    )
    const letter = letters.find((text) => text.includes(`\r\nTo: ${email}\r\n`))
    expect([isMailed, linkIn(letter)]).toEqual([true, link])
    const events = await idp.deps.db
      .select()
      .from(auditEvents)
      .where(eq(auditEvents.subject, `user:${id}`))
    expect(JSON.stringify(events)).not.toMatch(new RegExp(`${email}|${link.slice(-43)}`))
  })

  test('prints the link if the letter cannot be sent, with a warning in place of an error', async () => {
    const email = `ada${++people}@example.com`
    const { code, stdout, stderr } = await run(`user invite ${email}`, {
      MAIL_URL: `smtp://127.0.0.1:${await freePort()}`,
    })
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^mail {4}warning: The mail server did not take a letter: .*; hand the link over yourself$/m)
    expect(await statusOf(/^link {4}(\S+)$/m.exec(stdout)?.[1] ?? '')).toBe(200)
  })

  test('makes another link for somebody who has not come in yet, and ends the earlier one', async () => {
    const ada = await invite('--given-name Ada --family-name Byron')
    const second = await runJson(`user invite ${ada.email.toUpperCase()} --family-name Lovelace`)
    expect(second).toMatchObject({ id: ada.id, isNew: false })
    expect([await statusOf(ada.link), await statusOf(second.link)]).toEqual([400, 200])
    expect(await runJson(`user show ${ada.id}`)).toMatchObject(names)
  })

  test('points to user reset for somebody who can sign in, by password or passkey', async () => {
    const [ada, eve] = [await invite(), await invite()]
    await take(ada.link)
    const browser = new Browser()
    const page = await browser.follow(await take(eve.link, chosen, 'passkey', browser), idp.url)
    await browser.submit(page, { credential: new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page)) })
    for (const { email } of [ada, eve])
      expect(await run(`user invite ${email}`)).toEqual(
        refused(`${email} has an account already; \`user reset\` makes a link for another password`),
      )
  })

  test('refuses what is no address, and a suspended account', async () => {
    expect(await run('user invite nobody')).toEqual(refused('This is not an email address'))
    const ada = await invite()
    await run(`user suspend ${ada.id}`)
    expect(await run(`user invite ${ada.email}`)).toEqual(
      refused(`${ada.email} is suspended; \`user restore\` comes first`),
    )
  })

  test('spells an address as the sign-up page does, so that nobody gets a second account by its other spelling', async () => {
    const { email, id } = await runJson('user invite ADA@Bücher.example')
    expect(email).toBe('ada@xn--bcher-kva.example')
    expect(await runJson('user invite ada@XN--bcher-kva.example')).toMatchObject({ id, isNew: false })
    expect(await runJson('user show ada@bücher.example')).toMatchObject({ id })
  })
})

describe('the page /welcome', () => {
  test('leads to making a passkey in place of a password, and that signs in', async () => {
    const ada = await invite()
    const browser = new Browser()
    const done = await take(ada.link, { ...chosen, new: '', again: '' }, 'passkey', browser)
    expect([done.status, done.location]).toEqual([303, `${idp.url}/passkeys/add`])
    const page = await browser.follow(done, idp.url)
    const authenticator = new SoftAuthenticator(idp.url)
    await browser.submit(page, { credential: authenticator.create(passkeyOptionsOn(page)) })
    const other = new Browser()
    const signIn = await other.visit(`${idp.url}/sign-in`)
    const answer = await other.submit(signIn, { credential: authenticator.get(passkeyOptionsOn(signIn)) })
    expect([answer.status, answer.location]).toEqual([303, `${idp.url}/`])
  })

  test('changes nothing by GET or HEAD, however often mail scanners look', async () => {
    const ada = await invite()
    for (const method of ['GET', 'HEAD', 'GET']) {
      const answer = await fetch(ada.link, { method })
      await answer.text()
      expect(answer.status).toBe(200)
    }
    expect(await changesOf(ada)).toEqual(['operator user.invited'])
    expect((await take(ada.link)).status).toBe(303)
  })

  test.each([
    ['no given name', { ...chosen, givenName: '  ' }, 'givenName'],
    ['a name of 101 characters', { ...chosen, familyName: 'x'.repeat(101) }, 'familyName'],
    ['a name of two lines', { ...chosen, givenName: 'A\nda' }, 'givenName'],
    ['two passwords', { ...chosen, again: 'another than the first' }, 'new'],
    ['a short password', { ...chosen, new: 'short', again: 'short' }, 'new'],
    ['a password of the name', { ...chosen, new: 'lovelace1815', again: 'lovelace1815' }, 'new'],
  ])(
    'answers %s with 400 on the same page, keeps what was typed, and leaves the link as it is',
    async (_, fields, at) => {
      const ada = await invite()
      const answer = await take(ada.link, fields)
      expect(answer.status).toBe(400)
      expect(answer.body).toMatch(new RegExp(`name="${at}"[^>]*aria-invalid="true"`))
      expect(answer.body).not.toContain(PASSWORD)
      expect(formsOn(answer)[0]?.filledIn.token).toBe(new URL(ada.link).searchParams.get('token'))
      expect(await changesOf(ada)).toEqual(['operator user.invited'])
      expect((await take(ada.link)).status).toBe(303)
    },
  )

  test('says that a link no longer works once its time is over: 7 days, or what --expires says', async () => {
    const [week, hours] = [await invite(), await invite('--expires 12h')]
    expect([await statusOf(week.link), await statusOf(hours.link)]).toEqual([200, 200])
    idp.advance(DAY_MS / 2)
    expect([await statusOf(week.link), await statusOf(hours.link)]).toEqual([200, 400])
    idp.advance(6.5 * DAY_MS)
    const gone = await new Browser().visit(week.link)
    expect([gone.status, gone.body.includes('This link no longer works')]).toEqual([400, true])
    idp.advance(-7 * DAY_MS)
  })

  test('says the same for a link of another purpose, for tokens of any bytes, and for none', async () => {
    const { link } = await runJson(`user reset ${(await idp.person()).userId}`)
    const reset = new URL(link).searchParams.get('token') ?? ''
    for (const token of [reset, '', '%00', '%ff%fe', 'x'.repeat(4_000), '%F0%9F%92%A5'])
      expect([token, await statusOf(`${idp.url}/welcome?token=${token}`)]).toEqual([token, 400])
  })

  test('does not pass by the second factor of somebody who found another way in meanwhile', async () => {
    const ada = await invite()
    const opened = new Browser()
    const page = await opened.visit(ada.link)
    const browser = new Browser()
    await browser.submit(await browser.visit(`${idp.url}/forgot-password`), { email: ada.email })
    const reset = await browser.visit(linkIn((await idp.letters(ada)).at(-1)))
    expect((await browser.submit(reset, { new: PASSWORD, again: PASSWORD })).status).toBe(200)
    expect(await statusOf(ada.link)).toBe(400)
    const fields = { ...chosen, new: 'of whoever reads the mailbox', again: 'of whoever reads the mailbox' }
    expect((await opened.submit(page, fields)).status).toBe(400)
    expect((await opened.visit(`${idp.url}/`)).status).toBe(302)
    expect(await idp.signedIn({ userId: ada.id, email: ada.email, password: PASSWORD })).toBeDefined()
  })

  test.each([
    ['a password', 'password_hash', 'another way in'],
    ['a suspension', 'suspended_at', '2030-01-01T00:00:00Z'],
  ])('lets nobody in if %s comes while the form is under way', async (_, column, value) => {
    const ada = await invite()
    const browser = new Browser()
    const page = await browser.visit(ada.link)
    const sql = postgres(idp.databaseUrl, { max: 2 })
    const isWaitedFor = async () =>
      (await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).length
    const { posted } = await sql.begin(async (tx) => {
      await tx`update users set ${tx({ [column]: value })} where id = ${ada.id}`
      const posted = browser.submit(page, chosen, { name: 'way', value: 'passkey' })
      await expect.poll(isWaitedFor).toBe(1)
      return { posted }
    })
    expect((await posted).status).toBe(400)
    await sql.end()
    expect((await browser.visit(`${idp.url}/`)).status).toBe(302)
  })

  test('lets one of fifty in who use a link at the same time', async () => {
    const ada = await invite()
    const browsers = Array.from({ length: 50 }, () => new Browser())
    const pages = await Promise.all(browsers.map((browser) => browser.visit(ada.link)))
    const answers = await Promise.all(
      browsers.map((browser, i) =>
        browser.submit(pages[i] ?? expect.fail(), { ...chosen, new: '', again: '' }, { name: 'way', value: 'passkey' }),
      ),
    )
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(49)
    expect(await changesOf(ada)).toEqual(['operator user.invited', `user:${ada.id} user.welcomed`])
  })

  test('lets nobody in whom the operator has suspended since', async () => {
    const ada = await invite()
    const browser = new Browser()
    const page = await browser.visit(ada.link)
    await run(`user suspend ${ada.id}`)
    for (const answer of [await browser.submit(page, chosen), await browser.visit(ada.link)]) {
      expect(answer.status).toBe(400)
      expect(answer.body).toContain('This link no longer works')
    }
    expect((await browser.visit(`${idp.url}/`)).status).toBe(302)
    expect(await runJson(`user show ${ada.id}`)).toMatchObject({ givenName: null, hasPassword: false })
    await run(`user restore ${ada.id}`)
    expect((await browser.submit(page, chosen)).status).toBe(303)
  })
})
