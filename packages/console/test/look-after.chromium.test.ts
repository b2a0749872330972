import { describeInChromium } from '@platform/testkit/chromium'
import { everyScope, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { newDeployment, untilEnded } from '../../../services/api/test/deployments.ts'
import { buildOutput, handler } from '../../../services/api/test/functions.ts'
import { exchange } from '../../../services/api/test/scenario.ts'
import { sessions } from '../../../services/idp/src/features/sessions/table.ts'
import { giveCredentials, openSignedIn, startWithConsole, watch } from './console.ts'
import { type Hand, handOf, means } from './hands.ts'
import { type Home, newHome } from './states.ts'
import { takePicture } from './tour.ts'

/** More than the 15 minutes for which a sign-in is fresh. */
const LONG_MS = 16 * 60_000

const site = buildOutput(
  {
    'api/checkout': handler(`
      const step = new URL(req.url, 'http://shop').searchParams.get('step')
      console.log('cart 38 is checked out')
      if (step === 'pay') throw new TypeError('the price of tea is undefined')
      res.end('thank you')`),
  },
  { files: { 'index.html': '<!doctype html><title>Shop</title><h1>Tea</h1>' } },
)

const main = (page: Page) => page.getByRole('main')
const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: typeof name === 'string' })
const link = (page: Page, name: string) => main(page).getByRole('link', { name, exact: true })
const part = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Parts', exact: true }).getByRole('link', { name })
const field = (page: Page, name: string) => main(page).getByRole('textbox', { name, exact: true })

describeInChromium('looking after an application', (open) => {
  let platform: TestPlatform
  beforeAll(async () => {
    platform = await startWithConsole()
  })
  afterAll(() => platform.close())

  /** An application with a Function that is live, in an organization of its own. */
  async function newShop(organization: string): Promise<Home & { host: string }> {
    const home = await newHome(platform, { organization })
    const { id } = await newDeployment(platform, home.owner, { archive: site })
    const { status, label } = await untilEnded(platform, id)
    expect(status).toBe('ACTIVE')
    return { ...home, host: `${label}.${platform.api.appsUrl.host}` }
  }

  async function openAt({ person }: Pick<Home, 'person'>, path: string, by: (typeof means)[number]) {
    const { context, page } = await open({ viewport: { width: 1_280, height: 800 } })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, person, path)
    return { context, page, faults, hand: handOf(page, by) }
  }

  async function addVariable(page: Page, hand: Hand, value: string, layer?: string): Promise<void> {
    await hand.press(main(page).locator('#new-variable'))
    await hand.type(field(page, 'Name'), 'GREETING')
    await hand.type(field(page, 'Value'), value)
    if (layer !== undefined) await hand.choose(main(page).getByLabel('Layer'), layer)
    await hand.press(button(page, 'Save variable'))
    await expect.poll(() => field(page, 'Name').count()).toBe(0)
  }

  test.each(means)('by %s alone, one sets a variable at three layers, sees which wins, and deploys it', async (by) => {
    const { path, organization, person, owner } = await newHome(platform, {
      organization: by === 'mouse' ? 'Acme' : 'Acme by keyboard',
    })
    const { context, page, faults, hand } = await openAt({ person }, organization, by)
    await hand.press(part(page, 'Variables'))
    await addVariable(page, hand, 'hello from acme')
    await hand.press(part(page, 'Applications'))
    await hand.press(link(page, 'Shop'))
    await hand.press(part(page, 'Variables'))
    await addVariable(page, hand, 'hello from the shop')
    await addVariable(page, hand, 'hello', 'Production')

    const rows = main(page)
      .getByRole('row')
      .filter({ has: page.getByRole('cell') })
    await expect.poll(() => rows.count()).toBe(3)
    const told = (await rows.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' '))
    expect(told).toEqual([
      expect.stringMatching(/^GREETING .* Production/),
      expect.stringMatching(/Hidden by production .* Application/),
      expect.stringMatching(/Hidden by production .* Organization/),
    ])
    const pulled = await platform.call(
      owner.token,
      `GET /applications/${owner.applicationId}/env-vars/pull?environment=production`,
    )
    expect(pulled.body.items).toEqual([{ key: 'GREETING', value: 'hello', source: 'environment' }])
    if (by === 'mouse') await takePicture(page, 'variables')

    await hand.press(link(page, 'Deploy'))
    await hand.press(button(page, 'Use the sample'))
    await hand.press(
      main(page)
        .getByRole('region', { name: /^Deploy / })
        .getByRole('button', { name: 'Deploy', exact: true }),
    )
    await page.locator('dd').first().getByText('Live').waitFor()
    await hand.press(
      page.getByRole('navigation', { name: 'Parts of the deployment' }).getByRole('link', { name: 'Variables' }),
    )
    await expect.poll(async () => (await rows.allInnerTexts()).join()).toMatch(/GREETING\s+Environment/)
    expect(new URL(page.url()).pathname).toMatch(new RegExp(`^${path}/deployments/`))
    expect(faults).toEqual([])
    await context.close()
  })

  test.each(means)('by %s alone, one makes a key that never ends, after signing in again', async (by) => {
    const home = await newHome(platform, { organization: by === 'mouse' ? 'Acme Europe' : 'Europe by keyboard' })
    const { person, path, owner } = home
    const { context, page, faults, hand } = await openAt(home, path, by)
    await platform.idp.db
      .update(sessions)
      .set({ authTime: new Date(Date.now() - LONG_MS) })
      .where(eq(sessions.userId, person.userId))
    await page.reload()
    await hand.press(part(page, 'API keys'))
    await hand.press(link(page, 'Create an API key'))
    await hand.type(main(page).getByLabel('Name', { exact: true }), 'Backups')
    await hand.press(button(page, 'Store files (S3)'))
    await hand.choose(main(page).getByRole('radio', { name: 'Never' }))
    if (by === 'mouse') await takePicture(page, 'new-key')
    await hand.press(button(page, 'Create key'))
    await page.waitForURL((url) => url.origin === platform.idpUrl)
    if (by === 'mouse') await giveCredentials(page, person)
    else {
      await hand.type(page.getByLabel('Email'), person.email)
      await hand.type(page.getByLabel('Password', { exact: true }), person.password)
      await page.keyboard.press('Enter')
    }
    await main(page).getByText('nothing has been created yet').waitFor()
    await hand.press(button(page, 'Create key'))
    const id = await page.locator('dd pre').first().innerText()
    const secret = await page.locator('dd pre').nth(1).innerText()
    expect((await exchange(platform, id, secret)).status).toBe(200)
    await hand.press(button(page, 'I have saved it'))
    await main(page)
      .getByRole('row', { name: /^Backups/ })
      .waitFor()
    const { body } = await platform.call(owner.token, `GET /api-keys?applicationId=${owner.applicationId}`)
    expect(body.items).toMatchObject([{ name: 'Backups', expiresAt: null, createdByUserId: person.userId }])
    expect(faults).toEqual([])
    await context.close()
  })

  test.each(means)('by %s alone, one finds the request that fails, and the line that explains it', async (by) => {
    const home = await newShop(by === 'mouse' ? 'Acme Labs' : 'Labs by keyboard')
    for (const step of ['cart', 'address', 'pay', 'cart'])
      expect((await visit(platform, home.host, `/api/checkout?step=${step}`)).status).toBe(step === 'pay' ? 500 : 200)
    await visit(platform, home.host, '/')
    const { context, page, faults, hand } = await openAt(home, home.path, by)
    await hand.press(part(page, 'Logs'))
    await hand.press(main(page).getByRole('group', { name: 'Status' }).getByRole('link', { name: /^5xx/ }))
    await main(page).getByText('1 request', { exact: true }).waitFor()
    await hand.press(main(page).getByRole('link', { name: /checkout\?step=pay/ }))
    const detail = main(page).getByRole('region', { name: 'Request', exact: true })
    await detail.getByText('TypeError: the price of tea is undefined').first().waitFor()
    await detail.getByText('cart 38 is checked out').waitFor()
    if (by === 'mouse') await takePicture(page, 'logs')
    expect(faults).toEqual([])
    await context.close()
  })

  test('the pages of every day open without a fault', async () => {
    const home = await newShop('Acme Tea')
    await platform.call(await home.person.token(everyScope), 'POST /applications', {
      name: 'Newsletter',
      organizationId: home.owner.organizationId,
    })
    await Promise.all(Array.from({ length: 20 }, (_, n) => visit(platform, home.host, n % 7 === 0 ? '/nowhere' : '/')))
    const { context, page, faults } = await openAt(home, home.organization, 'mouse')
    await main(page).getByText('Newsletter').waitFor()
    await takePicture(page, 'applications')
    await link(page, 'Shop').click()
    await main(page)
      .getByRole('region', { name: /^Requests/ })
      .waitFor()
    await takePicture(page, 'application')
    await page.keyboard.press('Control+k')
    await page.keyboard.type('new')
    await page.getByRole('option').first().waitFor()
    await takePicture(page, 'go-to')
    await page.keyboard.press('Escape')
    await part(page, 'Deployments').click()
    await main(page).getByRole('row').getByRole('link').first().click()
    await main(page).getByText('Ready in').waitFor()
    await takePicture(page, 'deployment')
    await button(page, 'As a command').click()
    await takePicture(page, 'as-a-command')
    await page.goto(`${platform.consoleUrl}${home.organization}/~/organization`)
    await main(page).getByRole('heading', { name: 'Quotas' }).waitFor()
    await takePicture(page, 'organization')
    expect(faults).toEqual([])
    await context.close()
  })
})
