import { scopeCatalogue } from '@platform/auth/scopes'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addConnections, addSessions } from '../../test/crowded-account.ts'
import { holdHour } from '../../test/hold-hour.ts'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const PHONE = { width: 390, height: 700 }
const EVERY_SCOPE = scopeCatalogue.join(' ')

async function openSignedIn(open: OpenPage) {
  const ana = await idp.person()
  const { page } = await open({ viewport: PHONE })
  await page.goto(`${idp.url}/sign-in`)
  await page.getByLabel('Email').fill(ana.email)
  await page.getByLabel('Password', { exact: true }).fill(ana.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(`${idp.url}/`)
  return { ana, page }
}
const heightOf = (page: Page) => page.evaluate<number>('document.documentElement.scrollHeight')

describeInChromium('long pages', (open) => {
  test('the pages of 200 sessions and of 50 connections are at most 1,600 px high on a phone, before anything is unfolded', async () => {
    // At midnight, since "yesterday, 23:00" takes most of a row's width: names break into most lines.
    holdHour(idp, 0)
    const { ana, page } = await openSignedIn(open)
    await addSessions(idp, ana, 199)
    const clients = await Promise.all(
      Array.from({ length: 25 }, (_, i) => idp.client({ name: `An application with a longer name, number ${i}` })),
    )
    await addConnections(idp, ana, clients, { each: 2, scope: EVERY_SCOPE })
    for (const path of ['/sessions', '/applications']) {
      await page.goto(`${idp.url}${path}`)
      expect(await heightOf(page)).toBeLessThanOrEqual(1_600)
    }
  })

  test('a page that asks for 25 scopes shows Allow and Deny at once on a phone, Allow first by sight and by Tab, and Enter alone sends nothing', async () => {
    const { page } = await openSignedIn(open)
    const client = await idp.client({ isFirstParty: false, name: 'A third party' })
    const device = await idp.send(
      'POST /oauth2/device_authorization',
      { client_id: client.id, scope: EVERY_SCOPE },
      {
        'content-type': 'application/json',
      },
    )
    const ofDevice = (device.body as { verification_uri_complete: string }).verification_uri_complete
    for (const address of [idp.authorizeUrl(client, { scope: EVERY_SCOPE }), ofDevice]) {
      await page.goto(address)
      expect(await page.locator('ul.scopes li').count()).toBeGreaterThan(20)
      expect(await heightOf(page)).toBeGreaterThan(PHONE.height)
      const [allow, deny] = [page.getByRole('button', { name: 'Allow' }), page.getByRole('button', { name: 'Deny' })]
      const [first, second] = [await allow.boundingBox(), await deny.boundingBox()]
      expect(first && second && [first.y, first.height, first.x < second.x]).toEqual([second?.y, second?.height, true])
      expect((second?.y ?? 0) + (second?.height ?? 0)).toBeLessThanOrEqual(PHONE.height)

      const before = page.url()
      await page.keyboard.press('Enter')
      await allow.focus()
      await page.keyboard.press('Tab')
      expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('Deny')
      expect(page.url()).toBe(before)
    }
  })
})

describeInChromium('the sign-in page', (open) => {
  test('the field of a refused password is marked, says why and has the focus', async () => {
    const { page } = await open({ viewport: PHONE })
    await page.goto(`${idp.url}/sign-in`)
    await page.getByLabel('Email').fill('ana@example.com')
    await page.getByLabel('Password', { exact: true }).fill('not the password')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    const field = page.locator('[name=password][aria-invalid=true][aria-describedby=problem]:focus')
    await field.waitFor()
    expect(await page.locator('[aria-invalid=true]').count()).toBe(1)
    const [box, problem] = [await field.boundingBox(), await page.locator('#problem').boundingBox()]
    expect((problem?.y ?? 0) - (box?.y ?? 0) - (box?.height ?? 0)).toBeLessThan(48)
  })
})
