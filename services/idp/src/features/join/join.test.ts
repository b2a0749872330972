// engines: postgres
import { createHmac, randomUUID } from 'node:crypto'
import type { Browser, Visit } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { auditEvents } from '@platform/service/audit-table'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { lastCode, NAMES, newAddress, signUpUrl, stranger, withPassword } from '../../../test/come-in.ts'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import { readEverything } from '../../../test/read-everything.ts'
import { claimsOf, linkIn, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'

let issuer: InvitationIssuer
let idp: TestIdp
let client: TestClient
const lines: string[] = []
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  idp = await startTestIdp(
    { SIGN_UP: 'open', INVITATION_ISSUERS: issuer.entry },
    { logTo: { write: (line) => void lines.push(line) } },
  )
  // Assertions end when a test says so.
  idp.holdClock()
  client = await idp.client()
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
})

const joinUrl = (assertion: string): string => `${idp.url}/join?invitation=${assertion}`
const linkTo = (page: Visit, path: string): string =>
  new RegExp(`href="(${idp.url}/${path}\\?returnTo=[^"]+)"`).exec(page.body)?.[1] ?? ''
const titleOf = ({ body }: Visit): string => /<h1>(.*?)<\/h1>/.exec(body)?.[1]?.replaceAll(/<\/?bdi>/g, '') ?? ''
/** What a new access token tells of. */
const joinedOf = async (person: TestPerson): Promise<unknown> =>
  claimsOf((await idp.tokens(client, person, 'openid')).access_token)['joined']

interface Invited {
  person: TestPerson
  browser: Browser
  id: string
  assertion: string
}
/** Somebody who is invited and signed in. */
async function invited(claims: Record<string, unknown> = {}): Promise<Invited> {
  const person = await idp.person()
  const id = randomUUID()
  const assertion = await issuer.invite(idp, { email: person.email, jti: id, ...claims })
  return { person, browser: await idp.signedIn(person), id, assertion }
}
const confirm = async ({ browser, assertion }: Invited): Promise<Visit> =>
  browser.submit(await browser.visit(joinUrl(assertion)), { invitation: assertion })
const sessionCookie = (visit: Visit): string =>
  visit.headers
    .getSetCookie()
    .find((line) => line.startsWith('session_'))
    ?.split(';')[0] ?? ''

describe('/join (D112)', () => {
  test('asks somebody who is signed in with one click; the next access token tells of it', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    expect(titleOf(page)).toBe('Join Analytical Engines')
    expect(await joinedOf(ana.person)).toBeUndefined()
    const done = await ana.browser.submit(page, { invitation: ana.assertion })
    expect(done.status).toBe(200)
    expect(titleOf(done)).toBe('You are joining Analytical Engines')
    expect(done.body).toContain('If the invitation still stands')
    expect(await joinedOf(ana.person)).toEqual([`${issuer.url}#${ana.id}`])
  })

  test('says what the role means and that it takes the place of another one, and isolates the names that others chose', async () => {
    const organization = 'Engines \u202e'
    const ana = await invited({ role: 'OWNER', organization, inviter: '\u05d0 \u202e' })
    for (const browser of [ana.browser, stranger()]) {
      const { body } = await browser.visit(joinUrl(ana.assertion))
      expect(body).toContain('Owner: may do everything<')
      expect(body).toContain('If you belong to it already, this becomes your role.')
      expect(body).toContain(`<h1>Join <bdi>${organization}</bdi></h1>`)
      expect(body).toContain('<strong><bdi>\u05d0 \u202e</bdi></strong> invites you to <strong><bdi>')
    }
    expect((await confirm(ana)).body).toContain(`<h1>You are joining <bdi>${organization}</bdi></h1>`)
    const admin = await stranger().visit(joinUrl((await invited({ role: 'ADMIN' })).assertion))
    expect(admin.body).toContain('Admin: may do everything, but neither make nor remove owners')
  })

  test('leads on to the console of the API that invited, if it names one', async () => {
    const done = await confirm(await invited({ console: 'https://console.example.com' }))
    expect(done.body).toContain('href="https://console.example.com"')
    expect((await confirm(await invited())).body).not.toContain('Open ')
  })

  test('leads somebody who is signed out to sign-in, and back', async () => {
    const person = await idp.person()
    const url = joinUrl(await issuer.invite(idp, { email: person.email }))
    const browser = stranger()
    const page = await browser.visit(url)
    expect(page.status).toBe(200)
    expect(page.body).not.toContain('<form')
    const signIn = await browser.visit(linkTo(page, 'sign-in'))
    expect(await idp.signIn(browser, signIn, person)).toMatchObject({ status: 303, location: url })
    expect((await browser.visit(url)).body).toContain('Join</button>')
  })

  test('leads somebody without an account to creating one with the address of the invitation, and back', async () => {
    const email = newAddress()
    const id = randomUUID()
    const assertion = await issuer.invite(idp, { email, jti: id })
    const browser = stranger()
    const signUp = await browser.visit(linkTo(await browser.visit(joinUrl(assertion)), 'sign-up'))
    const code = await browser.follow(await browser.submit(signUp, {}), idp.url)
    const names = await browser.follow(await browser.submit(code, { code: await lastCode(idp, email) }), idp.url)
    const page = await browser.follow(await browser.submit(names, NAMES, withPassword), idp.url)
    expect(page.url).toBe(joinUrl(assertion))
    expect(titleOf(await browser.submit(page, { invitation: assertion }))).toContain('You are joining')
    expect(await joinedOf({ userId: '', email, password: NAMES.new })).toEqual([`${issuer.url}#${id}`])
  })

  test('somebody whose address is not proven is led to prove it, and joins afterwards', async () => {
    const person = await idp.person({ emailVerified: false })
    const assertion = await issuer.invite(idp, { email: person.email })
    const browser = await idp.signedIn(person)
    const page = await browser.visit(joinUrl(assertion))
    expect(`${page.status} ${titleOf(page)}`).toBe('403 Confirm your address first')
    expect(page.body).toContain(`href="${idp.url}/email"`)
    expect(page.body).not.toContain('<form')
    await browser.submit(await browser.visit(`${idp.url}/email`), {})
    const link = linkIn((await idp.letters(person)).at(-1))
    await browser.submit(await browser.visit(link), {})
    expect((await browser.submit(await browser.visit(joinUrl(assertion)), {})).status).toBe(200)
  })

  test('the account of the invitation is found in any case of its address', async () => {
    const ana = await invited()
    await idp.deps.db.execute(`update users set email = upper(email) where id = '${ana.person.userId}'`)
    expect((await confirm(ana)).status).toBe(200)
  })

  test('an assertion that ends while the page is open joins nobody, and says what to do', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    idp.advance(3_600_000)
    const late = await ana.browser.submit(page, { invitation: ana.assertion })
    expect(`${late.status} ${titleOf(late)}`).toBe('400 This invitation no longer works')
    expect(await joinedOf(ana.person)).toBeUndefined()
  })

  test('a form sent after the session has ended leads by sign-in to the page with the invitation', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    await idp.deps.db.execute(`delete from sessions where user_id = '${ana.person.userId}'`)
    const { status, location } = await ana.browser.submit(page, { invitation: ana.assertion })
    expect({ status, location }).toEqual({
      status: 303,
      location: `${idp.url}/sign-in?returnTo=${encodeURIComponent(joinUrl(ana.assertion))}`,
    })
  })

  test('the audit has who took which invitation of which API, and no address', async () => {
    const ana = await invited()
    await confirm(ana)
    const events = await idp.deps.db.select().from(auditEvents).where(eq(auditEvents.action, 'invitation.taken'))
    const own = events.filter(({ subject }) => subject === `user:${ana.person.userId}`)
    expect(own).toMatchObject([
      { actor: `user:${ana.person.userId}`, details: { invitationId: ana.id, issuer: issuer.url } },
    ])
    expect(JSON.stringify(own)).not.toContain('@')
  })

  test('browsers that are known to the account stay known after it joined (decision 16)', async () => {
    const ana = await invited()
    await confirm(ana)
    const warnings = async () =>
      (await idp.allLetters(ana.person)).filter((letter) => letter.includes('Subject: A new browser signed in'))
    const before = (await warnings()).length
    await idp.signIn(ana.browser, await ana.browser.visit(`${idp.url}/sign-in?returnTo=/passkeys/add`), ana.person)
    expect(await warnings()).toHaveLength(before)
  })

  test('neither an address nor an assertion is in a log line', async () => {
    const ana = await invited()
    await confirm(ana)
    await stranger().visit(joinUrl(ana.assertion))
    await stranger().visit(signUpUrl(idp, joinUrl(ana.assertion)))
    const log = lines.join('')
    expect(log).toContain('/join')
    expect(log).not.toMatch(/@example|%40example/)
    expect(log).not.toContain(ana.assertion.split('.')[1])
  })
})

describe('attacks on joining', () => {
  test('wrong-account-joins: another account is shown both addresses and a way on, and cannot join by a form either', async () => {
    const ana = await invited()
    const bob = await idp.person()
    const browser = stranger()
    const signedIn = await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), bob)
    const page = await browser.visit(joinUrl(ana.assertion))
    expect(`${page.status} ${titleOf(page)}`).toBe('403 This invitation is for another account')
    for (const { email } of [ana.person, bob]) expect(page.body).toContain(email)
    expect(page.body).not.toContain('<form')
    // Bob holds the cookie that his tokens are made with, so he can make the right one.
    const csrf = createHmac('sha256', sessionCookie(signedIn).split('=')[1] ?? '')
      .update(`join\n${issuer.url}\n${ana.id}`)
      .digest('base64url')
    const sent = await browser.visit(`${idp.url}/join/confirm`, { csrf, invitation: ana.assertion })
    expect(`${sent.status} ${titleOf(sent)}`).toBe('403 This invitation is for another account')
    expect(await joinedOf(bob)).toBeUndefined()
    // The way on: another account, in the same browser, although Bob is signed in.
    const signIn = await browser.visit(linkTo(page, 'sign-in'))
    expect(signIn.status).toBe(200)
    const back = await browser.follow(await idp.signIn(browser, signIn, ana.person), idp.url)
    expect((await browser.submit(back, { invitation: ana.assertion })).status).toBe(200)
    expect(await joinedOf(ana.person)).toEqual([`${issuer.url}#${ana.id}`])
  })

  test('wrong-account-joins: an account whose address changes while its form is on the way does not join', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    const [answer] = await holding<[Visit]>(
      idp.databaseUrl,
      (sql) => sql`update users set email = ${newAddress()} where id = ${ana.person.userId}`,
      [() => ana.browser.submit(page, { invitation: ana.assertion })],
    )
    expect(answer.status).toBe(400)
    const [row] = await idp.deps.db.execute(`select joined from users where id = '${ana.person.userId}'`)
    expect(row).toEqual({ joined: null })
  })

  test('wrong-account-joins: a form of one invitation does not take another one, and one without a token takes none', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    const second = await issuer.invite(idp, { email: ana.person.email })
    expect((await ana.browser.submit(page, { invitation: second })).status).toBe(403)
    expect((await ana.browser.visit(`${idp.url}/join/confirm`, { invitation: ana.assertion })).status).toBe(403)
    expect(await joinedOf(ana.person)).toBeUndefined()
  })

  test('wrong-account-joins: a suspended account does not join', async () => {
    const ana = await invited()
    const page = await ana.browser.visit(joinUrl(ana.assertion))
    await suspendUser(idp.deps, ana.person.userId)
    expect((await ana.browser.submit(page, { invitation: ana.assertion })).status).toBe(303)
    const [row] = await idp.deps.db.execute(`select joined from users where id = '${ana.person.userId}'`)
    expect(row).toEqual({ joined: null })
  })

  test('scanner-opens-every-link: GET and HEAD of an invitation change nothing, whoever is signed in', async () => {
    const ana = await invited()
    const cookie = sessionCookie(
      await idp.signIn(ana.browser, await ana.browser.visit(`${idp.url}/sign-in?returnTo=/passkeys/add`), ana.person),
    )
    const before = await readEverything(idp)
    for (const path of [joinUrl(ana.assertion), `${idp.url}/join/confirm?invitation=${ana.assertion}`])
      for (const method of ['GET', 'HEAD', 'GET'])
        for (const headers of [{}, { cookie }])
          expect([200, 405]).toContain((await fetch(path, { method, headers, redirect: 'manual' })).status)
    expect(await readEverything(idp)).toEqual(before)
  })
})
