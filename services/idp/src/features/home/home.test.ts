import type { Browser, Visit } from '@platform/testkit/browser'
import { sentStatements } from '@platform/testkit/sent-statements'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addConnections, addSessions } from '../../../test/crowded-account.ts'
import { words } from '../../../test/page-words.ts'
import { startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const home = (browser: Browser) => browser.visit(`${idp.url}/`)
/** What the row of a page says: its name, its value, and the note below. */
const rowOf = ({ body }: Visit, path: string) =>
  words(new RegExp(`<a class="row" href="${idp.url}/${path}".*?</li>`, 's').exec(body)?.[0])
const nextOf = ({ body }: Visit) => words(/<p class="next">.*?<\/p>/s.exec(body)?.[0])

/** Gives someone an app, and so many recovery codes. */
const addAuthenticator = ({ userId }: TestPerson, codes: number) =>
  idp.deps.db.execute(sql`
    with app as (
      insert into authenticators (user_id, ciphertext, kek_id, last_step, created_at) values (${userId}, '', 'test', 0, now()))
    insert into recovery_codes (code_hash, user_id, created_at)
    select sha256(convert_to(${userId} || n, 'UTF8')), ${userId}, now() from generate_series(1, ${codes}) as n`)
const addPasskeys = ({ userId }: TestPerson, count: number) =>
  idp.deps.db.execute(sql`
    insert into passkeys (id, user_id, credential_id, public_key, counter, transports, is_synced, name, created_at)
    select gen_random_uuid(), ${userId}, sha256(convert_to(${userId} || n, 'UTF8')), '', 0, '{}', false, 'Key', now()
    from generate_series(1, ${count}) as n`)

test('a new account has a password, one session, and no application', async () => {
  const page = await home(await idp.signedIn(await idp.person()))
  expect(
    ['password', 'passkeys', 'authenticator', 'sessions', 'applications'].map((path) => rowOf(page, path)),
  ).toEqual([
    'Password Set',
    'Passkeys None',
    'Authenticator app Off',
    'Active sessions 1 This browser alone',
    'Connected applications 0',
  ])
})

test('the ways in are told with their numbers', async () => {
  const ana = await idp.person()
  const browser = await idp.signedIn(ana)
  await addPasskeys(ana, 2)
  await addAuthenticator(ana, 1)
  const page = await home(browser)
  expect(rowOf(page, 'passkeys')).toBe('Passkeys 2')
  expect(rowOf(page, 'authenticator')).toBe('Authenticator app 1 recovery code left')
})

test('sessions and applications are told with their number and the one that was used last', async () => {
  const [ana, bob] = [await idp.person(), await idp.person()]
  const browser = await idp.signedIn(ana)
  const [notes, mail] = [await idp.client({ name: 'Notes' }), await idp.client({ name: 'Mail', isFirstParty: false })]
  await idp.code(mail, ana, { scope: 'openid' }) // a consent, and another session
  await addSessions(idp, ana, 1)
  await addConnections(idp, ana, [notes], { each: 3, scope: 'openid offline_access' })
  await addSessions(idp, bob, 5)
  await addConnections(idp, bob, [await idp.client()], { each: 1, scope: 'openid' })
  idp.advance(120_000)
  const page = await home(browser)
  expect(rowOf(page, 'sessions')).toMatch(/^Active sessions 3 Besides this one, .+ was used last, 2 minutes ago$/)
  expect(rowOf(page, 'applications')).toBe('Connected applications 2 Notes was used last, 2 minutes ago')
})

test('an old session that does not say what it is counts as the one used last', async () => {
  const ana = await idp.person()
  const browser = await idp.signedIn(ana)
  await addSessions(idp, ana, 1)
  await idp.deps.db.execute(sql`update sessions set user_agent = null where user_id = ${ana.userId}`)
  expect(rowOf(await home(browser), 'sessions')).toContain('Besides this one, Unknown browser was used last')
})

test('at most one thing is worth doing next: a second factor, then the address, then recovery codes', async () => {
  const ana = await idp.person({ emailVerified: false })
  const browser = await idp.signedIn(ana)
  await idp.deps.db.execute(sql`update users set email_verified = false where id = ${ana.userId}`)
  expect(nextOf(await home(browser))).toBe('Only a password protects your account. Add a passkey')
  await addAuthenticator(ana, 0)
  expect(nextOf(await home(browser))).toBe('Your address is not confirmed yet. Confirm it')
  await idp.deps.db.execute(sql`update users set email_verified = true where id = ${ana.userId}`)
  expect(nextOf(await home(browser))).toBe('You have no recovery codes left. Make new ones')
  await addPasskeys(ana, 1)
  await idp.deps.db.execute(sql`delete from authenticators where user_id = ${ana.userId}`)
  expect(nextOf(await home(browser))).toBe('')
})

test('sign-out stands in the header and is no row', async () => {
  const { body } = await home(await idp.signedIn(await idp.person()))
  expect(/<header>.*?<\/header>/s.exec(body)?.[0]).toContain(`href="${idp.url}/sign-out"`)
  expect(body.match(/\/sign-out"/g)).toHaveLength(1)
})

test('the page takes one statement besides the look for its session', async () => {
  const browser = await idp.signedIn(await idp.person())
  expect(await sentStatements(() => home(browser))).toHaveLength(2)
})

test.each(['/sessions', '/applications'])(
  '%s takes as many statements for a crowded account as for an empty one',
  async (path) => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const visit = () => browser.visit(`${idp.url}${path}`)
    const before = await sentStatements(visit)
    await addSessions(idp, ana, 199)
    const clients = await Promise.all(Array.from({ length: 10 }, (_, i) => idp.client({ name: `Application ${i}` })))
    await addConnections(idp, ana, clients, { each: 5, scope: 'openid offline_access' })
    expect(await sentStatements(visit)).toHaveLength(before.length)
  },
)

test.each([
  ['of 255 letters', 'x'.repeat(255)],
  ['of one emoji', '🦆'],
  ['from right to left', 'مريم'],
  ['with markup', '<img src=x onerror="alert(1)">'],
])('a name %s is shown as text', async (_, givenName) => {
  const person = await idp.person({ givenName, familyName: undefined })
  const { body } = await home(await idp.signedIn(person))
  const escaped = givenName.replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
  expect(/<h1>(.*?)<\/h1>/s.exec(body)?.[1]).toBe(escaped)
  expect(body).not.toContain('<img')
})

test('an account without a name is called that', async () => {
  const person = await idp.person({ givenName: undefined, familyName: undefined })
  const { body } = await home(await idp.signedIn(person))
  expect(body).toContain('<h1>Your account</h1>')
  expect(body).toContain(person.email)
})
