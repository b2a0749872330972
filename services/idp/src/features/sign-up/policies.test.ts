import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  accountsOf,
  askForCode,
  NAMES,
  newAddress,
  proveAddress,
  signUp,
  signUpUrl,
  stranger,
  withPassword,
} from '../../../test/come-in.ts'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import { readEverything } from '../../../test/read-everything.ts'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'
import { createUser } from '../accounts/accounts.ts'

const HOUR_MS = 3_600_000
const NOBODY = 'http://127.0.0.1:1'

let issuer: InvitationIssuer
let closed: TestIdp
let domains: TestIdp
let without: TestIdp
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  const INVITATION_ISSUERS = `${issuer.entry},${NOBODY}`
  closed = await startTestIdp({ INVITATION_ISSUERS, SUPPORT_URL: 'mailto:help@example.com' })
  domains = await startTestIdp({
    INVITATION_ISSUERS,
    SIGN_UP: 'domains',
    SIGN_UP_DOMAINS: 'example.com, b\u00fccher.example',
    INVITATION_DOMAINS: 'example.com,example.org',
  })
  without = await startTestIdp({ INVITATION_ISSUERS, MAIL_URL: '' })
  // Limits and lifetimes end when a test says so, and not while a busy machine is at it.
  for (const idp of [closed, domains]) idp.holdClock()
})
afterAll(async () => {
  for (const idp of [closed, domains, without]) await idp.close()
  await issuer.close()
})

const joinUrl = (idp: TestIdp, assertion: string): string => `${idp.url}/join?invitation=${assertion}`
const invite = async (idp: TestIdp, claims: Record<string, unknown>): Promise<string> =>
  joinUrl(idp, await issuer.invite(idp, claims))

/** Sends the form of an address although no page shows it: whoever holds the cookie can make the token. */
async function sendAnyway(idp: TestIdp, email: string) {
  const browser = stranger()
  const page = await browser.visit(`${idp.url}/sign-in`)
  const [, cookie = ''] = /^before_\d+=([^;]+)/.exec(page.headers.getSetCookie().join()) ?? []
  const returnTo = `${idp.url}/`
  const csrf = createHmac('sha256', cookie).update(`sign-up\n${returnTo}`).digest('base64url')
  return browser.visit(`${idp.url}/sign-up`, { csrf, returnTo, email })
}

describe('SIGN_UP=closed, which is the default', () => {
  test('shows no form, says who decides, and mails no stranger', async () => {
    const page = await stranger().visit(signUpUrl(closed))
    expect(page.status).toBe(200)
    expect(page.body).not.toContain('<form')
    expect(page.body).toContain('Accounts here are made for people who were invited.')
    expect(page.body).toContain('href="mailto:help@example.com"')
    const email = newAddress()
    const before = await readEverything(closed)
    const refused = await sendAnyway(closed, email)
    expect(refused.status).toBe(403)
    expect(refused.body).toContain('Accounts here are made for people who were invited.')
    expect(await closed.letters({ email })).toEqual([])
    expect(await readEverything(closed)).toEqual(before)
  })

  test('sign-in does not lead to it, except for somebody who is invited', async () => {
    const linkIn = async (idp: TestIdp, returnTo: string) =>
      (await stranger().visit(`${idp.url}/sign-in?returnTo=${encodeURIComponent(returnTo)}`)).body.includes('/sign-up')
    const invited = await invite(closed, { email: newAddress() })
    expect([await linkIn(closed, '/'), await linkIn(closed, '/passkeys'), await linkIn(closed, invited)]).toEqual([
      false,
      false,
      true,
    ])
    expect(await linkIn(domains, '/passkeys')).toBe(true)
  })

  test('a live invitation admits the address that it names, which still has to be proven, and leads to it (D112)', async () => {
    const email = newAddress()
    const returnTo = await invite(closed, { email })
    const { page } = await askForCode(closed, email, { returnTo })
    expect(page.body).toContain(email)
    expect(await accountsOf(closed, email)).toEqual([])
    expect((await signUp(closed, email, { returnTo })).page).toMatchObject({ status: 303, location: returnTo })
  })

  test('a live invitation admits no other address than its own, whatever the form says', async () => {
    const [email, other] = [newAddress(), newAddress()]
    const browser = stranger()
    const page = await browser.visit(signUpUrl(closed, await invite(closed, { email })))
    expect(page.body).toMatch(new RegExp(`<input\\s+type="email"[^>]*value="${email}"[^>]*readonly`))
    expect((await browser.submit(page, { email: other })).status).toBe(303)
    expect(await closed.letters({ email: other })).toEqual([])
    expect(await closed.letters({ email })).toHaveLength(1)
  })

  test('while the keys of an invitation cannot be read, a page of status 503 leads back to the form', async () => {
    const url = signUpUrl(closed, await invite(closed, { iss: NOBODY, email: newAddress() }))
    const page = await stranger().visit(url)
    expect(page).toMatchObject({ status: 503, body: expect.stringContaining('cannot be checked right now') as string })
    expect(page.headers.get('retry-after')).toBe('10')
    expect(page.body).toContain(`href="${url}"`)
  })

  test('an invitation that names somebody who has an account mails them no code', async () => {
    const { email } = await closed.person()
    await askForCode(closed, email, { returnTo: await invite(closed, { email }) })
    expect((await closed.letters({ email })).join()).toContain('Subject: You have an account already')
  })

  test('expired-assertion-under-closed: an invitation that is over by an hour admits nobody, whether it was so when the form was shown or not', async () => {
    const email = newAddress()
    const browser = stranger()
    const returnTo = await invite(closed, { email })
    const shown = await browser.visit(signUpUrl(closed, returnTo))
    expect(shown.body).toContain('<form')
    closed.advance(HOUR_MS)
    const late = await browser.submit(shown, { email })
    expect(late.status).toBe(403)
    expect(late.body).toContain('No new accounts here')
    expect((await browser.visit(signUpUrl(closed, returnTo))).body).not.toContain('<form')
    expect((await browser.visit(`${closed.url}/sign-up/code`)).status).toBe(400)
    expect(await closed.letters({ email })).toEqual([])
  })

  test('whoever proved the address in time may take a while to choose names', async () => {
    const email = newAddress()
    const { browser, page } = await proveAddress(closed, email, { returnTo: await invite(closed, { email }) })
    closed.advance(HOUR_MS / 3)
    expect((await browser.submit(page, NAMES, withPassword)).status).toBe(303)
  })
})

describe('SIGN_UP=domains', () => {
  test('admits the domains that the operator named, in either of their names', async () => {
    for (const email of [newAddress('example.com'), newAddress('xn--bcher-kva.example')]) {
      expect((await signUp(domains, email)).page.status).toBe(303)
      expect(await accountsOf(domains, email)).toHaveLength(1)
    }
  })

  test('refuses others in place, names the domains, and mails nobody', async () => {
    const browser = stranger()
    const page = await browser.visit(signUpUrl(domains, '/passkeys'))
    expect(page.body).toContain('An address of example.com or xn--bcher-kva.example.')
    for (const domain of ['example.org', 'sub.example.com', 'example.com.evil.example', 'notexample.com']) {
      const email = newAddress(domain)
      const refused = await browser.submit(page, { email })
      expect(refused.status).toBe(400)
      expect(refused.body).toContain('Addresses of this domain cannot create an account here.')
      expect(refused.body).toMatch(/<input\s+type="email"[^>]*aria-invalid="true"/)
      expect(refused.body).toContain(`value="${email}"`)
      expect(await domains.letters({ email })).toEqual([])
    }
  })

  test('an invitation passes it, within INVITATION_DOMAINS', async () => {
    const invited = newAddress('example.org')
    const { page } = await signUp(domains, invited, { returnTo: await invite(domains, { email: invited }) })
    expect(page.status).toBe(303)
    const outside = newAddress('example.net')
    const browser = stranger()
    const shown = await browser.visit(signUpUrl(domains, await invite(domains, { email: outside })))
    expect(shown.body).not.toContain('readonly')
    // Nor does the invitation's page lead there, unless the address may create an account without it.
    const leads = async (idp: TestIdp, email: string) =>
      (await stranger().visit(await invite(idp, { email }))).body.includes(`Create one with ${email}`)
    expect(await leads(domains, outside)).toBe(false)
    for (const domain of ['example.org', 'example.com', 'xn--bcher-kva.example'])
      expect(await leads(domains, newAddress(domain))).toBe(true)
    expect(await leads(closed, outside)).toBe(true)
    expect((await browser.submit(shown, { email: outside })).status).toBe(400)
    expect(await domains.letters({ email: outside })).toEqual([])
  })

  test('an invitation outside of INVITATION_DOMAINS still serves somebody of the domains, and somebody who has an account', async () => {
    const email = newAddress('example.net')
    const { id } = await createUser(domains.deps, { email, password: NAMES.new })
    const browser = await domains.signedIn({ userId: id, email, password: NAMES.new })
    const page = await browser.visit(await invite(domains, { email }))
    expect((await browser.submit(page, {})).status).toBe(200)
  })
})

test('without MAIL_URL even an invitation leads to no form', async () => {
  const email = newAddress()
  const returnTo = await invite(without, { email })
  const page = await stranger().visit(signUpUrl(without, returnTo))
  expect(page.status).toBe(200)
  expect(page.body).toContain('This service sends no mail')
  expect(page.body).not.toContain('<form')
  expect(page.body).toContain(`href="${without.url}/sign-in?returnTo=${encodeURIComponent(returnTo)}"`)
})
