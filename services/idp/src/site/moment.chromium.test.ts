import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addSessions } from '../../test/crowded-account.ts'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
  idp.holdClock()
})
afterAll(() => idp.close())

/** The list of sessions of an account that has two of yesterday, in a browser of this time zone. */
async function openSessions(open: OpenPage, options: Parameters<OpenPage>[0]) {
  const { page } = await open({ timezoneId: 'Pacific/Auckland', ...options })
  const ana = await idp.person()
  await page.goto(`${idp.url}/sign-in?returnTo=/sessions`)
  await page.getByLabel('Email').fill(ana.email)
  await page.getByLabel('Password', { exact: true }).fill(ana.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await addSessions(idp, ana, 1)
  idp.advance(30 * 3_600_000)
  await page.goto(`${idp.url}/sessions`)
  return page
}

/** The time of day in a zone, as the page should tell it. */
const clockIn = (timeZone: string, iso: string | null): string =>
  new Date(iso ?? '').toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' })

describeInChromium('times on pages', (open) => {
  test('a time on a page is in the time zone of the browser, without naming it', async () => {
    const page = await openSessions(open, {})
    const time = page.locator('summary time')
    const clock = clockIn('Pacific/Auckland', await time.getAttribute('datetime'))
    expect(await time.innerText()).toMatch(new RegExp(`, ${clock}$`))
  })

  test('a time on a page is in UTC, which it names, where scripts do not run', async () => {
    const page = await openSessions(open, { javaScriptEnabled: false })
    const time = page.locator('summary time')
    const clock = clockIn('UTC', await time.getAttribute('datetime'))
    expect(await time.innerText()).toMatch(new RegExp(`, ${clock} UTC$`))
  })

  test('a time on a page shows its seconds while its row has the focus or the pointer is on it, until Escape is pressed', async () => {
    const page = await openSessions(open, {})
    const exact = page.locator('summary time .exact')
    expect(await exact.isVisible()).toBe(false)
    await page.keyboard.press('Tab')
    await page.locator('summary').first().focus()
    await exact.waitFor()
    expect(await exact.innerText()).toMatch(/^\d+ \w+ \d{4}, \d\d:\d\d:\d\d GMT\+1[23]$/)
    await page.keyboard.press('Escape')
    await exact.waitFor({ state: 'hidden' })
    await page.locator('summary time').hover()
    await exact.waitFor()
  })

  test('Tab reaches a time on a page where it reaches nothing around it', async () => {
    const page = await openSessions(open, {})
    await page.locator('summary').first().focus()
    await page.keyboard.press('Shift+Tab')
    expect(await page.locator('time:focus .exact').isVisible()).toBe(true)
  })
})
