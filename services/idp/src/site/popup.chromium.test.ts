import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describeInChromium } from '@platform/testkit/chromium'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

/** A client on another origin: its page, and a callback that hands the answer to the window that opened it. */
async function startClient(): Promise<string> {
  const callback = `<script>opener.postMessage(location.search, '*'); document.title = 'handed over'</script>`
  const home = `<script>addEventListener('message', ({ data }) => { document.title = data })</script>`
  const server = createServer(({ url }, response) => {
    response.setHeader('content-type', 'text/html').end(url?.startsWith('/callback') ? callback : home)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describeInChromium('a client that opens a popup', (open) => {
  test('gets its answer from there, through sign-in and consent', async () => {
    const origin = await startClient()
    const redirectUri = `${origin}/callback`
    const client = await idp.client({ kind: 'confidential', isFirstParty: false, redirectUris: [redirectUri] })
    const { email, password } = await idp.person()
    const { context, page } = await open()
    await page.goto(origin)
    const opened = context.waitForEvent('page')
    await page.evaluate(`void open(${JSON.stringify(idp.authorizeUrl(client, { redirect_uri: redirectUri }))})`)
    const popup = await opened
    await popup.getByLabel('Email').fill(email)
    await popup.getByLabel('Password', { exact: true }).fill('not the password')
    await popup.getByRole('button', { name: 'Sign in', exact: true }).click()
    await popup.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
    await popup.getByLabel('Password', { exact: true }).fill(password)
    await popup.getByRole('button', { name: 'Sign in', exact: true }).click()
    await popup.getByRole('button', { name: 'Allow' }).click()
    await page.waitForFunction(`document.title.includes('code=')`)
    expect(new URLSearchParams(await page.title()).get('code')).toBeTruthy()
  })

  test('has no hold of a page of the account', async () => {
    const { context, page } = await open()
    await page.goto(await startClient())
    const opened = context.waitForEvent('page')
    await page.evaluate(`void (globalThis.popup = open(${JSON.stringify(`${idp.url}/sign-in`)}))`)
    const popup = await opened
    await popup.getByLabel('Email').waitFor()
    expect(await popup.evaluate<boolean>('opener === null')).toBe(true)
    expect(await page.evaluate<boolean>('popup.closed')).toBe(true)
  })
})
