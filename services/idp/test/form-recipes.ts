import { randomUUID } from 'node:crypto'
import { Browser, type Visit } from '@platform/testkit/browser'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { askForCode, lastCode, NAMES, newAddress, proveAddress } from './come-in.ts'
import type { InvitationIssuer } from './invitation-issuer.ts'
import { inviteUser } from '../src/features/welcome/invite-user.ts'
import { passkeyOptionsOn, SoftAuthenticator } from './soft-authenticator.ts'
import { linkIn, type TestIdp, type TestPerson } from './start.ts'

/** A form that somebody has in front of them. */
interface OpenForm {
  browser: Browser
  /** The page that shows it. */
  shown: Visit
  /** What they fill in, with the button that they press. */
  fields: Record<string, string>
  /**
   * Where someone without a session is led, as a URL begins, if not to sign in; `stays` where they are shown a page. Of pages
   * that need a session.
   */
  withoutSession?: string
  /** Another browser of the same user, where the second factor was not shown. Of pages that are for `proven` or `fresh` sessions. */
  unproven?: Browser
}

type Recipe = (idp: TestIdp, issuer: InvitationIssuer) => Promise<OpenForm>

const STEP_MS = 30_000
const DAY_MS = 86_400_000

const secretOn = (page: Visit): Uint8Array =>
  base32.decode((/class="secret">([^<]+)</.exec(page.body)?.[1] ?? '').replaceAll(' ', ''), { strict: false })

interface Person {
  person: TestPerson
  /** Signed in, before there was a second factor. */
  browser: Browser
}

async function signedIn(idp: TestIdp, description: { emailVerified?: boolean } = {}): Promise<Person> {
  const person = await idp.person(description)
  return { person, browser: await idp.signedIn(person) }
}

/** Someone who set up an app in `proven`, and its code now. */
async function withApp(idp: TestIdp): Promise<Person & { proven: Browser; code: string }> {
  const { person, browser } = await signedIn(idp)
  const proven = await idp.signedIn(person)
  const page = await proven.visit(`${idp.url}/authenticator/add`)
  const secret = secretOn(page)
  const codeOf = () => generateHOTP(secret, Math.floor(idp.now().getTime() / STEP_MS))
  await proven.submit(page, { code: await codeOf() })
  // To the beginning of a step whose code was not taken.
  idp.advance(2 * STEP_MS - (idp.now().getTime() % STEP_MS))
  return { person, browser, proven, code: await codeOf() }
}

/** Someone who made a passkey in `proven`. */
async function withPasskey(idp: TestIdp): Promise<Person & { proven: Browser; authenticator: SoftAuthenticator }> {
  const { person, browser } = await signedIn(idp)
  const proven = await idp.signedIn(person)
  const authenticator = new SoftAuthenticator(idp.url)
  const page = await proven.visit(`${idp.url}/passkeys/add`)
  await proven.submit(page, { credential: authenticator.create(passkeyOptionsOn(page)), name: 'Key ring' })
  return { person, browser, proven, authenticator }
}

async function secondFactor(idp: TestIdp, browser: Browser): Promise<Visit> {
  const url = idp.authorizeUrl(await idp.client(), { acr_values: 'aal2' })
  return browser.follow(await browser.visit(url), idp.url)
}

async function lettersLink(idp: TestIdp, person: TestPerson): Promise<string> {
  return linkIn((await idp.letters(person)).at(-1))
}

/** How the form of each page comes to be filled in rightly, so that it is accepted. */
export const formRecipes: Record<string, Recipe> = {
  '/sign-in': async (idp) => {
    const browser = new Browser()
    const { email, password } = await idp.person()
    return { browser, shown: await browser.visit(`${idp.url}/sign-in`), fields: { email, password } }
  },
  '/sign-in/code': async (idp) => {
    const { person, code } = await withApp(idp)
    const browser = new Browser()
    const shown = await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
    return { browser, shown, fields: { code } }
  },
  '/sign-in/code/passkey': async (idp) => {
    const { person, proven } = await withApp(idp)
    const authenticator = new SoftAuthenticator(idp.url)
    const page = await proven.visit(`${idp.url}/passkeys/add`)
    await proven.submit(page, { credential: authenticator.create(passkeyOptionsOn(page)) })
    const browser = new Browser()
    const shown = await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
    return { browser, shown, fields: { credential: authenticator.get(passkeyOptionsOn(shown)) } }
  },
  '/sign-in/passkey': async (idp) => {
    const { authenticator } = await withPasskey(idp)
    const browser = new Browser()
    const shown = await browser.visit(`${idp.url}/sign-in`)
    return { browser, shown, fields: { credential: authenticator.get(passkeyOptionsOn(shown)) } }
  },
  '/sign-up': async (idp) => {
    const browser = new Browser()
    return { browser, shown: await browser.visit(`${idp.url}/sign-up`), fields: { email: newAddress() } }
  },
  '/sign-up/code': async (idp) => {
    const { email, browser, page } = await askForCode(idp, newAddress())
    return { browser, shown: page, fields: { code: await lastCode(idp, email) } }
  },
  '/sign-up/name': async (idp) => {
    const { browser, page } = await proveAddress(idp, newAddress())
    return { browser, shown: page, fields: { ...NAMES, way: 'password' } }
  },
  '/join/confirm': async (idp, issuer) => {
    const { person, browser } = await signedIn(idp)
    const assertion = await issuer.invite(idp, { email: person.email })
    return { browser, shown: await browser.visit(`${idp.url}/join?invitation=${assertion}`), fields: {} }
  },
  '/choose-account': async (idp) => {
    const { browser } = await signedIn(idp)
    const url = idp.authorizeUrl(await idp.client(), { prompt: 'select_account' })
    const shown = await browser.follow(await browser.visit(url), idp.url)
    return { browser, shown, fields: { decision: 'continue' }, withoutSession: '/oauth2/authorize?' }
  },
  '/second-factor': async (idp) => {
    const { browser, code } = await withApp(idp)
    const shown = await secondFactor(idp, browser)
    return { browser, shown, fields: { code }, withoutSession: '/oauth2/authorize?' }
  },
  '/second-factor/passkey': async (idp) => {
    const { browser, authenticator } = await withPasskey(idp)
    const shown = await secondFactor(idp, browser)
    const credential = authenticator.get(passkeyOptionsOn(shown))
    return { browser, shown, fields: { credential }, withoutSession: '/oauth2/authorize?' }
  },
  '/consent': async (idp) => {
    const { browser } = await signedIn(idp)
    const url = idp.authorizeUrl(await idp.client({ isFirstParty: false }))
    const shown = await browser.follow(await browser.visit(url), idp.url)
    return { browser, shown, fields: { decision: 'approve' }, withoutSession: '/oauth2/authorize?' }
  },
  '/sign-out': async (idp) => {
    const { browser } = await signedIn(idp)
    return { browser, shown: await browser.visit(`${idp.url}/sign-out`), fields: {}, withoutSession: 'stays' }
  },
  '/email': async (idp) => {
    const { browser } = await signedIn(idp, { emailVerified: false })
    return { browser, shown: await browser.visit(`${idp.url}/email`), fields: {} }
  },
  '/verify-email': async (idp) => {
    const { person, browser } = await signedIn(idp, { emailVerified: false })
    await browser.submit(await browser.visit(`${idp.url}/email`), {})
    const reader = new Browser()
    return { browser: reader, shown: await reader.visit(await lettersLink(idp, person)), fields: {} }
  },
  '/password': async (idp) => {
    const { person, browser } = await signedIn(idp)
    const wanted = 'a longer one, of several words'
    const fields = { current: person.password, new: wanted, again: wanted }
    return { browser, shown: await browser.visit(`${idp.url}/password`), fields }
  },
  '/forgot-password': async (idp) => {
    const { email } = await idp.person()
    const browser = new Browser()
    return { browser, shown: await browser.visit(`${idp.url}/forgot-password`), fields: { email } }
  },
  '/set-password': async (idp) => {
    const person = await idp.person()
    const browser = new Browser()
    await browser.submit(await browser.visit(`${idp.url}/forgot-password`), { email: person.email })
    const shown = await browser.visit(await lettersLink(idp, person))
    const wanted = 'a longer one, of several words'
    return { browser, shown, fields: { new: wanted, again: wanted } }
  },
  '/welcome': async (idp) => {
    const { link } = await inviteUser(idp.deps, { email: `${randomUUID()}@example.com`, lifetimeMs: DAY_MS })
    const browser = new Browser()
    const wanted = 'a longer one, of several words'
    const fields = { givenName: 'Ada', new: wanted, again: wanted, way: 'password' }
    return { browser, shown: await browser.visit(link), fields }
  },
  '/authenticator/add': async (idp) => {
    const { proven, browser } = await withPasskey(idp)
    const shown = await proven.visit(`${idp.url}/authenticator/add`)
    const code = await generateHOTP(secretOn(shown), Math.floor(idp.now().getTime() / STEP_MS))
    return { browser: proven, shown, fields: { code }, unproven: browser }
  },
  '/authenticator/recovery-codes': async (idp) => {
    const { person, proven, browser } = await withApp(idp)
    const shown = await proven.visit(`${idp.url}/authenticator`)
    return { browser: proven, shown, fields: { 'proof-recovery-codes': person.password }, unproven: browser }
  },
  '/authenticator/remove': async (idp) => {
    const { person, proven, browser } = await withApp(idp)
    const shown = await proven.visit(`${idp.url}/authenticator`)
    return { browser: proven, shown, fields: { 'proof-remove': person.password }, unproven: browser }
  },
  '/passkeys/add': async (idp) => {
    const { proven, browser } = await withApp(idp)
    const shown = await proven.visit(`${idp.url}/passkeys/add`)
    const credential = new SoftAuthenticator(idp.url).create(passkeyOptionsOn(shown))
    return { browser: proven, shown, fields: { credential, name: 'Phone' }, unproven: browser }
  },
  '/passkeys/rename': async (idp) => {
    const { proven } = await withPasskey(idp)
    return { browser: proven, shown: await proven.visit(`${idp.url}/passkeys`), fields: { name: 'Another name' } }
  },
  '/passkeys/remove': async (idp) => {
    const { proven, browser } = await withPasskey(idp)
    return { browser: proven, shown: await proven.visit(`${idp.url}/passkeys`), fields: {}, unproven: browser }
  },
  '/sessions/end': async (idp) => {
    const { person, browser } = await signedIn(idp)
    await idp.signedIn(person)
    return { browser, shown: await browser.visit(`${idp.url}/sessions`), fields: {} }
  },
  '/sessions/end-others': async (idp) => {
    const { person, browser } = await signedIn(idp)
    for (let i = 0; i < 2; i++) await idp.signedIn(person)
    return { browser, shown: await browser.visit(`${idp.url}/sessions`), fields: {} }
  },
  '/sessions/end-all': async (idp) => {
    const { browser } = await signedIn(idp)
    return { browser, shown: await browser.visit(`${idp.url}/sessions`), fields: {} }
  },
  '/applications/disconnect': async (idp) => {
    const { person, browser } = await signedIn(idp)
    await idp.tokens(await idp.client({ isFirstParty: false }), person)
    return { browser, shown: await browser.visit(`${idp.url}/applications`), fields: {} }
  },
  '/applications/cut-off': async (idp) => {
    const { person, browser } = await signedIn(idp)
    await idp.tokens(await idp.client({ isFirstParty: false }), person)
    return { browser, shown: await browser.visit(`${idp.url}/applications`), fields: {} }
  },
  '/device/decision': async (idp) => {
    const { browser } = await signedIn(idp)
    const json = { 'content-type': 'application/json' }
    const form = { client_id: (await idp.client()).id, scope: 'openid' }
    const { body } = await idp.send('POST /oauth2/device_authorization', form, json)
    const shown = await browser.visit((body as { verification_uri_complete: string }).verification_uri_complete)
    return { browser, shown, fields: { decision: 'approve' } }
  },
}
