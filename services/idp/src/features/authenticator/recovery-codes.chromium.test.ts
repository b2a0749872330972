import { readFile } from 'node:fs/promises'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

describeInChromium('recovery codes are taken along', (open) => {
  /** The page that shows new codes, once. */
  async function newCodes(options?: Parameters<OpenPage>[0]) {
    const { context, page } = await open(options)
    const person = await idp.person()
    await page.goto(`${idp.url}/sign-in`)
    await page.getByLabel('Email').fill(person.email)
    await page.getByLabel('Password', { exact: true }).fill(person.password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForURL(`${idp.url}/`)
    await page.goto(`${idp.url}/authenticator/add`)
    const text = (await page.locator('.secret').textContent()) ?? ''
    const secret = base32.decode(text.replaceAll(' ', ''), { strict: false })
    const code = await generateHOTP(secret, Math.floor(idp.now().getTime() / 30_000))
    await page.getByLabel('Code from the app').fill(code)
    await page.getByRole('button', { name: 'Turn on' }).click()
    const list = page.getByRole('list', { name: 'Recovery codes' })
    await list.waitFor()
    const codes = await list.getByRole('listitem').allTextContents()
    expect(codes).toHaveLength(10)
    return { context, page, person, codes }
  }

  test('by the clipboard, one on a line', async () => {
    const { context, page, codes } = await newCodes()
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('status').filter({ hasText: 'Copied.' }).waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(codes.join('\n'))
  })

  test('by hand where the browser has no clipboard for the page: they are selected', async () => {
    const { page, codes } = await newCodes()
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('status').filter({ hasText: 'The codes are selected' }).waitFor()
    const selected = await page.evaluate<string>('getSelection().toString()')
    expect(selected.split(/\s+/)).toEqual(codes)
  })

  test('in a file that says whose they are', async () => {
    const { page, person, codes } = await newCodes()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('recovery-codes.txt')
    const text = await readFile(await download.path(), 'utf8')
    expect(text).toContain(`Recovery codes of ${person.email} at localhost`)
    expect(text.trimEnd().split('\n').slice(-10)).toEqual(codes)
  })

  test('on paper, where nothing but them is printed', async () => {
    const { page, codes } = await newCodes()
    await page.evaluate(`globalThis.print = () => { document.title = 'printed' }`)
    await page.getByRole('button', { name: 'Print' }).click()
    expect(await page.title()).toBe('printed')
    await page.emulateMedia({ media: 'print' })
    expect((await page.evaluate<string>('document.body.innerText')).trim().split(/\s+/)).toEqual(codes)
  })

  test('without JavaScript there are no buttons, and the codes are text', async () => {
    const { page, codes } = await newCodes({ javaScriptEnabled: false })
    expect(await page.getByRole('button').count()).toBe(0)
    expect(await page.getByRole('list', { name: 'Recovery codes' }).innerText()).toContain(codes[9])
  })
})
