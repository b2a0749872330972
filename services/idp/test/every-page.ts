import { scopeCatalogue } from '@platform/auth/scopes'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import type { BrowserContext, Page } from 'playwright-core'
import { setClientPolicy } from '../src/features/clients/clients.ts'
import { inviteUser } from '../src/features/welcome/invite-user.ts'
import { addVirtualAuthenticator } from '@platform/testkit/chromium'
import { addConnections, addSessions } from './crowded-account.ts'
import type { InvitationIssuer } from './invitation-issuer.ts'
import { passkeyOptionsOn, SoftAuthenticator } from './soft-authenticator.ts'
import { linkIn, type TestIdp, type TestPerson } from './start.ts'

/** A walk through the account site: `look` is called on every page, in every state that looks different. */
type Look = (name: string, page: Page) => Promise<void>

export interface Walk {
  idp: TestIdp
  /** An API that invites to its organizations. */
  issuer: InvitationIssuer
  context: BrowserContext
  page: Page
  look: Look
}

/** The longest list that a page can be asked to show. */
const EVERY_SCOPE = scopeCatalogue.join(' ')

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

/** Sends email and password; what the second factor asks then stands at the same address. */
async function sendPassword({ idp, page }: Walk, { email, password }: TestPerson): Promise<void> {
  await page.goto(`${idp.url}/sign-in`)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await button(page, 'Sign in').click()
}

export async function signIn(walk: Walk, person: TestPerson): Promise<void> {
  await sendPassword(walk, person)
  await walk.page.waitForURL((url) => !url.pathname.endsWith('/sign-in'))
}

/** Gives someone a passkey and an app in a browser of their own. */
async function addFactorsElsewhere(idp: TestIdp, person: TestPerson): Promise<void> {
  const browser = await idp.signedIn(person)
  const passkey = await browser.visit(`${idp.url}/passkeys/add`)
  await browser.submit(passkey, { credential: new SoftAuthenticator(idp.url).create(passkeyOptionsOn(passkey)) })
  const app = await browser.visit(`${idp.url}/authenticator/add`)
  const text = /class="secret">([^<]+)</.exec(app.body)?.[1] ?? ''
  const secret = base32.decode(text.replaceAll(' ', ''), { strict: false })
  await browser.submit(app, { code: await generateHOTP(secret, Math.floor(idp.now().getTime() / 30_000)) })
}

/** What somebody sees who is not signed in. */
export async function walkSignedOut({ idp, page, look }: Walk): Promise<void> {
  const ana = await idp.person()
  await page.goto(`${idp.url}/sign-in`)
  await look('sign-in', page)
  await page.getByLabel('Email').fill(ana.email)
  await page.getByLabel('Password', { exact: true }).fill('not the password')
  await button(page, 'Sign in').click()
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
  await look('sign-in, refused', page)
  await page.goto(idp.authorizeUrl(await idp.client({ name: 'An application with a rather long name' })))
  await look('sign-in, for a client', page)

  await page.goto(`${idp.url}/forgot-password`)
  await look('forgot-password', page)
  await page.getByLabel('Email').fill(ana.email)
  await button(page, 'Mail me a link').click()
  await page.getByText('a link is on its way').waitFor()
  await look('forgot-password, asked', page)
  const link = linkIn((await idp.letters(ana)).at(-1))
  await page.goto(link)
  await look('set-password', page)
  await page.getByLabel('New password', { exact: true }).fill('a new and longer password')
  await page.getByLabel('New password, once more').fill('another than that')
  await button(page, 'Save password').click()
  await page.getByRole('alert').waitFor()
  await look('set-password, refused', page)
  await page.getByLabel('New password', { exact: true }).fill('a new and longer password')
  await page.getByLabel('New password, once more').fill('a new and longer password')
  await button(page, 'Save password').click()
  await page.getByText('Every session from before').waitFor()
  await look('set-password, done', page)
  await page.goto(link)
  await look('set-password, gone', page)
  const { link: welcome } = await inviteUser(idp.deps, { email: 'ada@example.com', lifetimeMs: 3_600_000 })
  await page.goto(welcome)
  await look('welcome', page)
  await page.getByLabel('Given name').fill('Ada')
  await page.getByLabel('New password', { exact: true }).fill('a new and longer password')
  await page.getByLabel('New password, once more').fill('another than that')
  await button(page, 'Save and sign in').click()
  await page.getByRole('alert').waitFor()
  await look('welcome, refused', page)
  await page.goto(`${idp.url}/welcome?token=x`)
  await look('welcome, gone', page)
  await page.goto(`${idp.url}/verify-email?token=x`)
  await look('verify-email, gone', page)
  await page.goto(`${idp.url}/sign-out`)
  await look('sign-out, nobody', page)
  await page.goto(`${idp.url}/settings`)
  await look('no such page', page)
}

/** The account and its lists, empty and full. */
export async function walkAccount(walk: Walk): Promise<void> {
  const { idp, page, look } = walk
  const ana = await idp.person({ emailVerified: false })
  await signIn(walk, ana)
  await look('home', page)
  await page.goto(`${idp.url}/email`)
  await look('email, not confirmed', page)
  await button(page, 'Mail me a link').click()
  await page.getByText('A link is on its way').waitFor()
  await look('email, asked', page)
  await page.goto(linkIn((await idp.letters(ana)).at(-1)))
  await look('verify-email', page)
  await button(page, 'Confirm').click()
  await page.getByText('Thank you').waitFor()
  await look('verify-email, done', page)
  await page.goto(`${idp.url}/email`)
  await look('email, confirmed', page)

  await page.goto(`${idp.url}/password`)
  await look('password', page)
  await page.getByLabel('Current password').fill('not the password')
  await page.getByLabel('New password', { exact: true }).fill('a new and longer password')
  await page.getByLabel('New password, once more').fill('a new and longer password')
  await button(page, 'Change password').click()
  await page.getByRole('alert').waitFor()
  await look('password, refused', page)

  await page.goto(`${idp.url}/applications`)
  await look('applications, none', page)
  const client = await idp.client({ isFirstParty: false, name: 'A third party', requester: 'Somebody else' })
  await page.goto(idp.authorizeUrl(client, { scope: 'openid profile email offline_access' }))
  await look('consent', page)
  await page.goto(idp.authorizeUrl(client, { scope: EVERY_SCOPE }))
  await look('consent, to everything', page)
  // The same click elsewhere: here it would lead to the client, and nobody is there.
  await idp.tokens(client, ana, EVERY_SCOPE)
  await page.goto(`${idp.url}/applications`)
  await look('applications', page)
  await page.goto(idp.authorizeUrl(client, { prompt: 'select_account' }))
  await look('choose-account', page)

  const strict = await idp.client({ name: 'An application that wants more than a password' })
  await setClientPolicy(idp.deps, { clientId: strict.id, policy: { requiresSecondFactor: true } })
  await page.goto(idp.authorizeUrl(strict))
  await look('second-factor, none', page)

  await page.goto(`${idp.url}/sessions`)
  await look('sessions, this one', page)
  await addSessions(idp, ana, 2)
  await page.goto(`${idp.url}/sessions`)
  await look('sessions', page)
  await addSessions(idp, ana, 197)
  await page.goto(`${idp.url}/sessions`)
  await look('sessions, many', page)
  await page.getByText(/more browsers$/).click()
  await page.getByText('Chrome on Windows').click()
  await look('sessions, many, open', page)

  const names = [
    'Console',
    'ل'.repeat(255),
    'Notes',
    '🦆',
    '<b>Bold</b> & "quoted"',
    'x'.repeat(255),
    'Mail',
    'Maps',
    'Tool',
    'Bot',
  ]
  const connected = await Promise.all(names.map((name) => idp.client({ name })))
  await addConnections(idp, ana, connected, { each: 5, scope: EVERY_SCOPE })
  await page.goto(`${idp.url}/applications`)
  await look('applications, many', page)
  await page.getByText(/more applications$/).click()
  await page.getByText('🦆', { exact: true }).click()
  await look('applications, many, open', page)
  await page.goto(`${idp.url}/`)
  await look('home, full', page)

  await page.goto(`${idp.url}/device`)
  await look('device', page)
  await page.goto(`${idp.url}/device?user_code=0000-0000`)
  await look('device, wrong code', page)
  const start = async (scope: string, headers: Record<string, string> = {}, by = client): Promise<string> => {
    const asked = { client_id: by.id, scope }
    const json = { 'content-type': 'application/json', ...headers }
    const { body } = await idp.send('POST /oauth2/device_authorization', asked, json)
    return (body as { verification_uri_complete: string }).verification_uri_complete
  }
  await page.goto(await start(EVERY_SCOPE, { 'x-forwarded-for': '2001:db8::7', 'user-agent': 'curl/8.5.0' }))
  await look('device, asked for everything from another network', page)
  await page.goto(await start('openid', {}, await idp.client({ name: 'Back office', kind: 'confidential' })))
  await look('device, asked by who did not prove to be the client', page)
  await page.goto(await start('openid profile email'))
  await look('device, asked', page)
  await button(page, 'Allow').click()
  await page.getByText('You can close this page').waitFor()
  await look('device, connected', page)

  await page.goto(`${idp.url}/sign-out`)
  await look('sign-out', page)
  await button(page, 'Sign out').click()
  await page.getByText('signed out of this browser').waitFor()
  await look('sign-out, done', page)
}

/** Accounts of people with unusual names, and applications with such. */
export async function walkNames(walk: Walk): Promise<void> {
  const { idp, context, page, look } = walk
  const names = [undefined, '🦆', 'x'.repeat(255), 'م'.repeat(255), '<img src=x onerror=alert(1)>']
  for (const name of names) {
    await context.clearCookies()
    const person = await idp.person({ givenName: name, familyName: undefined })
    await signIn(walk, person)
    const title = name?.slice(0, 12) ?? 'no name'
    await look(`home of ${title}`, page)
    if (name === undefined) continue
    const client = await idp.client({ name, isFirstParty: false, requester: name })
    await page.goto(idp.authorizeUrl(client))
    await look(`consent for ${title}`, page)
  }
}

/** Passkeys, the authenticator app, and signing in with it. */
export async function walkFactors(walk: Walk): Promise<void> {
  const { idp, context, page, look } = walk
  const ana = await idp.person()
  const authenticator = await addVirtualAuthenticator(context, page)
  await signIn(walk, ana)
  await page.goto(`${idp.url}/passkeys`)
  await look('passkeys, none', page)
  await page.goto(`${idp.url}/passkeys/add`)
  await look('passkeys, add', page)
  await page.getByLabel('Name').fill('Phone in my pocket')
  await button(page, 'Add a passkey').click()
  await page.getByRole('heading', { name: 'Phone in my pocket' }).waitFor()
  await look('passkeys', page)
  await page.getByText('Rename or remove').click()
  await look('passkeys, open', page)
  await page.goto(`${idp.url}/passkeys/add`)
  await button(page, 'Add a passkey').click()
  await page.getByRole('alert').filter({ hasText: 'already' }).waitFor()
  await look('passkeys, add refused', page)

  await page.goto(`${idp.url}/authenticator`)
  await look('authenticator, none', page)
  await page.goto(`${idp.url}/authenticator/add`)
  await look('authenticator, add', page)
  await page.getByText('No camera at hand?').click()
  await look('authenticator, add by hand', page)
  const text = (await page.locator('.secret').textContent()) ?? ''
  const secret = base32.decode(text.replaceAll(' ', ''), { strict: false })
  const code = (steps: number) => generateHOTP(secret, Math.floor(idp.now().getTime() / 30_000) + steps)
  await page.getByLabel('Code from the app').fill('000000')
  await button(page, 'Turn on').click()
  await page.getByRole('alert').waitFor()
  await look('authenticator, add refused', page)
  await page.getByLabel('Code from the app').fill(await code(0))
  await button(page, 'Turn on').click()
  await page.getByRole('list', { name: 'Recovery codes' }).waitFor()
  await look('authenticator, recovery codes', page)
  await page.goto(`${idp.url}/authenticator`)
  await look('authenticator', page)
  await page.getByText('Remove the app').first().click()
  await page.locator('[name=proof-remove]').fill('not the password')
  await button(page, 'Remove the app').click()
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
  await look('authenticator, remove refused', page)

  await context.clearCookies()
  await authenticator.answerAtOnce(false)
  await sendPassword(walk, ana)
  await button(page, 'Use a passkey').waitFor()
  await look('sign-in/code', page)
  await page.getByText('Your app is not at hand?').click()
  await page.getByText('Lost all of these?').click()
  await look('sign-in/code, recovery', page)
  await page.getByLabel('Code', { exact: true }).fill('000000')
  await button(page, 'Continue').click()
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
  await look('sign-in/code, refused', page)
  await authenticator.answerAtOnce(true)
  await button(page, 'Use a passkey').click()
  await page.waitForURL(`${idp.url}/`)
  await authenticator.answerAtOnce(false)

  const bob = await idp.person()
  await context.clearCookies()
  await signIn(walk, bob)
  await addFactorsElsewhere(idp, bob)
  await page.goto(idp.authorizeUrl(await idp.client({ name: 'Another application' }), { acr_values: 'aal2' }))
  await button(page, 'Use a passkey').waitFor()
  await look('second-factor', page)
  await page.getByText('Your app is not at hand?').click()
  await look('second-factor, recovery', page)
  await page.getByLabel('Code', { exact: true }).fill('000000')
  await button(page, 'Continue').click()
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
  await look('second-factor, refused', page)
  await page.goto(`${idp.url}/oauth2/logout?id_token_hint=none`)
  await look('refusal', page)
}
