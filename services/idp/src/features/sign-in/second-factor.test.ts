import { Browser, type Visit } from '@platform/testkit/browser'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import { claimsOf, startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'

const STEP_MS = 30_000
const MINUTE_MS = 60_000

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

/** A user with an app, and with a passkey in `authenticator` if wanted. */
async function enrolled(options: { withPasskey: boolean } = { withPasskey: true }) {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const page = await browser.visit(`${idp.url}/authenticator/add`)
  const text = /class="secret">([^<]+)</.exec(page.body)?.[1] ?? ''
  const secret = base32.decode(text.replaceAll(' ', ''), { strict: false })
  await browser.submit(page, { code: await generateHOTP(secret, Math.floor(idp.now().getTime() / STEP_MS)) })
  const authenticator = new SoftAuthenticator(idp.url)
  if (options.withPasskey) {
    const add = await browser.visit(`${idp.url}/passkeys/add`)
    await browser.submit(add, { credential: authenticator.create(passkeyOptionsOn(add)) })
  }
  return { person, browser, authenticator }
}
async function afterPassword(person: TestPerson, url = `${idp.url}/sign-in`) {
  const browser = new Browser()
  const form = await browser.follow(await browser.visit(url), idp.url)
  return { browser, page: await idp.signIn(browser, form, person) }
}
const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200
const use = (browser: Browser, page: Visit, authenticator: SoftAuthenticator) =>
  browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })

describe('a passkey as the second factor of a password', () => {
  test('is offered beside the code to whoever has one, and leads on at aal2', async () => {
    const { person, authenticator } = await enrolled()
    const client = await idp.client()
    const { browser, page } = await afterPassword(person, idp.authorizeUrl(client))
    expect(page.body).toContain('Use a passkey')
    expect(page.body).toContain('name="code"')
    expect(passkeyOptionsOn(page)).toMatchObject({ userVerification: 'required' })
    const done = await browser.follow(await use(browser, page, authenticator), idp.url)
    const code = new URL(done.location ?? '').searchParams.get('code') ?? ''
    const { body } = await idp.token(idp.codeForm(client, code))
    expect(claimsOf(body.id_token)).toMatchObject({ acr: 'aal2', amr: ['pwd', 'hwk', 'user', 'mfa'] })
  })

  test('is not offered to whoever has none, and the page needs no script then', async () => {
    const { person } = await enrolled({ withPasskey: false })
    const { page } = await afterPassword(person)
    expect(page.body).toContain('name="code"')
    expect(page.body).not.toContain('passkey"')
    expect(page.body).not.toContain('<script')
  })

  test('is refused where it is of somebody else, not verified, used before, or made for another page', async () => {
    const [ana, eve] = [await enrolled(), await enrolled()]
    const { browser, page } = await afterPassword(ana.person)
    const options = passkeyOptionsOn(page)
    const signInOptions = passkeyOptionsOn(await browser.visit(`${idp.url}/sign-in`))
    for (const credential of [
      eve.authenticator.get(options),
      ana.authenticator.get(options, { isUserVerified: false }),
      ana.authenticator.get(signInOptions),
      '{}',
    ]) {
      const refused = await browser.submit(page, { credential })
      expect(refused).toMatchObject({ status: 401, body: expect.stringContaining('role="alert"') })
      expect(await isSignedIn(browser)).toBe(false)
    }
    const credential = ana.authenticator.get(options)
    expect((await browser.submit(page, { credential })).status).toBe(303)
    expect((await browser.submit(page, { credential })).status).toBe(401)
  })

  test('does not stand in for the password: what was proven is good for ten minutes, and for this password', async () => {
    const { person, authenticator } = await enrolled()
    const early = await afterPassword(person)
    idp.advance(10 * MINUTE_MS)
    expect((await use(early.browser, early.page, authenticator)).location).toContain('/sign-in?returnTo=')
    const late = await afterPassword(person)
    await idp.deps.db.execute(`update users set password_hash = 'another' where id = '${person.userId}'`)
    expect((await use(late.browser, late.page, authenticator)).status).toBe(401)
    for (const { browser } of [early, late]) expect(await isSignedIn(browser)).toBe(false)
  })

  test('tells who is suspended meanwhile', async () => {
    const { person, authenticator } = await enrolled()
    const { browser, page } = await afterPassword(person)
    await suspendUser(idp.deps, person.userId)
    expect(await use(browser, page, authenticator)).toMatchObject({
      status: 403,
      body: expect.stringContaining('suspended'),
    })
  })
})

test('whoever has lost everything is told what to do', async () => {
  const { person } = await enrolled()
  const { page } = await afterPassword(person)
  expect(page.body).toMatch(/Ask whoever runs this service to\s+remove your second factor/)
})
