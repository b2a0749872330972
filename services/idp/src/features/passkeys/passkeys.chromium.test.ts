import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { addVirtualAuthenticator, describeInChromium } from '@platform/testkit/chromium'
import { startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { setClientPolicy } from '../clients/clients.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

async function signInByPassword(page: Page, { email, password }: TestPerson): Promise<void> {
  await page.goto(`${idp.url}/sign-in`)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(`${idp.url}/`)
}
async function addPasskey(page: Page, name: string): Promise<void> {
  await page.goto(`${idp.url}/passkeys/add`)
  await page.getByLabel('Name').fill(name)
  await page.getByRole('button', { name: 'Add a passkey' }).click()
}
/** Signs out by deleting cookies, like another visit with the same browser. */
const forget = (page: Page) => page.context().clearCookies()

describeInChromium('passkeys, end to end (identity.md)', (open) => {
  test('one that was added signs in from the list that the email field opens, without a click (conditional UI)', async () => {
    const { context, page } = await open()
    const authenticator = await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Work laptop')
    await page.getByRole('heading', { name: 'Work laptop' }).waitFor()
    expect(await authenticator.credentials()).toMatchObject([{ isResidentCredential: true, rpId: 'localhost' }])
    await forget(page)
    // Chromium's virtual authenticator accepts the offer automatically.
    await page.goto(`${idp.url}/sign-in?returnTo=${encodeURIComponent('/passkeys')}`)
    await page.waitForURL(`${idp.url}/passkeys`)
    expect(await page.getByText('Never').count()).toBe(0)
    expect(await page.getByLabel('Email').count()).toBe(0)
  })

  test('the button signs in as well; a wrong finger is told what to do and may try again', async () => {
    const { context, page } = await open()
    const authenticator = await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Token')
    await page.getByRole('heading', { name: 'Token' }).waitFor()
    await forget(page)
    // The fingerprint is wrong before the page offers passkeys, so that the offer signs nobody in meanwhile.
    await authenticator.answerAtOnce(false)
    await authenticator.verifyUser(false)
    await page.goto(`${idp.url}/sign-in`)
    await authenticator.answerAtOnce(true)
    const button = page.getByRole('button', { name: 'Sign in with a passkey' })
    await button.click()
    await page.getByRole('alert').getByText('No passkey was used').waitFor()
    await authenticator.verifyUser(true)
    await button.click()
    await page.waitForURL(`${idp.url}/`)
    expect(await page.getByRole('link', { name: 'Sign out' }).isVisible()).toBe(true)
  })

  test('the choice not to stay signed in holds for the button, too', async () => {
    const { context, page } = await open()
    const authenticator = await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    const expiries = async () =>
      (await context.cookies()).filter(({ name }) => name.startsWith('session_')).map(({ expires }) => expires)
    expect(await expiries()).not.toEqual([-1])
    await addPasskey(page, 'Token')
    await page.getByRole('heading', { name: 'Token' }).waitFor()
    await forget(page)
    await authenticator.answerAtOnce(false)
    await page.goto(`${idp.url}/sign-in`)
    await page.getByLabel('Stay signed in').uncheck()
    await authenticator.answerAtOnce(true)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.waitForURL(`${idp.url}/`)
    expect(await expiries()).toEqual([-1])
  })

  test('leads on to the client that waits, whose origin the policy of the page allows', async () => {
    const { context, page } = await open()
    await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Token')
    await page.getByRole('heading', { name: 'Token' }).waitFor()
    await forget(page)
    const callback = createServer((_, response) => response.end('the client'))
    await once(callback.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void callback.close())
    const redirectUri = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/callback`
    const client = await idp.client({ kind: 'confidential', redirectUris: [redirectUri] })
    await page.goto(idp.authorizeUrl(client, { redirect_uri: redirectUri }))
    await page.waitForURL((url) => url.href.startsWith(redirectUri))
    expect(new URL(page.url()).searchParams.get('code')).toBeTruthy()
  })

  test('a client that wants more than the password gets it: a passkey made on the way, and later one that is used', async () => {
    const { context, page } = await open()
    const authenticator = await addVirtualAuthenticator(context, page)
    const ana = await idp.person()
    const callback = createServer((_, response) => response.end('the client'))
    await once(callback.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void callback.close())
    const redirectUri = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/callback`
    const client = await idp.client({ kind: 'confidential', redirectUris: [redirectUri] })
    await setClientPolicy(idp.deps, { clientId: client.id, policy: { requiresSecondFactor: true } })
    const request = idp.authorizeUrl(client, { redirect_uri: redirectUri })

    await signInByPassword(page, ana)
    await page.goto(request)
    await page.getByRole('link', { name: 'Add a passkey' }).click()
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.waitForURL((url) => url.href.startsWith(redirectUri))
    expect(new URL(page.url()).searchParams.get('code')).toBeTruthy()

    await forget(page)
    await authenticator.answerAtOnce(false)
    await signInByPassword(page, ana)
    await page.goto(request)
    await page.getByRole('heading', { name: 'Confirm that it is you' }).waitFor()
    await authenticator.answerAtOnce(true)
    await page.getByRole('button', { name: 'Use a passkey' }).click()
    await page.waitForURL((url) => url.href.startsWith(redirectUri))
    expect(new URL(page.url()).searchParams.get('code')).toBeTruthy()
  })

  test('a device that holds a passkey of the account says so instead of adding another', async () => {
    const { context, page } = await open()
    await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'First')
    await page.getByRole('heading', { name: 'First' }).waitFor()
    await addPasskey(page, 'Second')
    await page.getByRole('alert').getByText('holds a passkey for your account already').waitFor()
    await page.goto(`${idp.url}/passkeys`)
    expect(await page.getByRole('heading', { level: 2 }).allTextContents()).toEqual(['First'])
  })

  test('a security key without a PIN makes no passkey, and its owner is told to set one', async () => {
    const { context, page } = await open()
    await addVirtualAuthenticator(context, page, { isSecurityKey: true })
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Key ring')
    await page.getByRole('alert').getByText('set a PIN for it').waitFor()
    await page.goto(`${idp.url}/passkeys`)
    expect(await page.getByText('You have no passkey yet').isVisible()).toBe(true)
  })

  test('nor does it sign in, and its owner is told why', async () => {
    const { context, page } = await open()
    await addVirtualAuthenticator(context, page, { isSecurityKey: true })
    await page.goto(`${idp.url}/sign-in`)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('alert').getByText('takes a PIN or a fingerprint').waitFor()
    expect(new URL(page.url()).pathname).toBe('/sign-in')
  })

  test('renaming and removing work with the keyboard', async () => {
    const { context, page } = await open()
    await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Old name')
    await page.getByText('Rename or remove').focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('New name')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'New name' }).waitFor()
    await page.getByText('Rename or remove').focus()
    await page.keyboard.press('Enter')
    for (let i = 0; i < 3; i++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByText('You have no passkey yet').waitFor()
    expect(await page.getByRole('heading', { level: 2 }).count()).toBe(0)
  })

  test('no page reports a breach of its policy or an error of its script', async () => {
    const { context, page } = await open()
    const complaints: string[] = []
    page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())))
    page.on('pageerror', (error) => void complaints.push(error.message))
    await addVirtualAuthenticator(context, page)
    await signInByPassword(page, await idp.person())
    await addPasskey(page, 'Token')
    await page.getByRole('heading', { name: 'Token' }).waitFor()
    expect(complaints).toEqual([])
  })

  test('without JavaScript the password signs in, and pages say what takes it', async () => {
    const { page } = await open({ javaScriptEnabled: false })
    await page.goto(`${idp.url}/sign-in`)
    expect(await page.getByRole('button', { name: 'Sign in with a passkey' }).isVisible()).toBe(false)
    await signInByPassword(page, await idp.person())
    await page.goto(`${idp.url}/passkeys/add`)
    expect(await page.getByText('takes JavaScript').isVisible()).toBe(true)
    expect(await page.getByRole('button', { name: 'Add a passkey' }).isVisible()).toBe(false)
  })
})
