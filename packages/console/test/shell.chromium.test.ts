import { randomUUID } from 'node:crypto'
import { describeInChromium } from '@platform/testkit/chromium'
import type { Person, TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { openSignedIn, startWithConsole, watch } from './console.ts'
import { DESKTOP, go, look } from './states-look.ts'
import { addApplications, deployed, git, type Home, newHome } from './states.ts'

const combobox = (page: Page) => page.getByRole('combobox', { name: 'Page or action' })
const options = (page: Page) => page.getByRole('option')
const openPalette = async (page: Page): Promise<void> => {
  await page.keyboard.press('Control+k')
  await combobox(page).waitFor()
}
/** Goes to what a name stands for, by keyboard alone. */
const take = async (page: Page, name: string): Promise<void> => {
  await openPalette(page)
  await page.keyboard.type(name)
  await page.keyboard.press('Enter')
  await combobox(page).waitFor({ state: 'detached' })
}
const pathOf = (page: Page): string => {
  const { pathname, search } = new URL(page.url())
  return pathname + search
}

describeInChromium('what every page has around it', (open) => {
  let platform: TestPlatform
  let home: Home
  beforeAll(async () => {
    platform = await startWithConsole({ hasWorker: false })
    home = await newHome(platform)
  })
  afterAll(() => platform.close())

  async function openAs(person: Person, path: string) {
    const { context, page } = await open({ viewport: DESKTOP })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, person, path)
    return { context, page, faults }
  }

  test('screens and forms have names that lead to them by keyboard alone, among more than 1,000', async () => {
    await addApplications(platform, home.owner, 110)
    const { context, page, faults } = await openAs(home.person, home.path)
    await openPalette(page)
    const more = page.getByRole('dialog').getByRole('status')
    await expect.poll(async () => Number.parseInt((await more.innerText()).replace(',', ''), 10)).toBeGreaterThan(1_000)
    expect(await page.locator('*').count()).toBeLessThan(2_000)
    expect(await look(page, 'palette', { isFull: true })).toEqual([])
    await page.keyboard.press('Escape')

    const { organization, path } = home
    for (const [name, target] of [
      ['deployments', `${path}/deployments`],
      ['logs of requests', `${path}/logs`],
      ['logs of functions', `${path}/logs?view=lines`],
      ['variables', `${path}/variables`],
      ['new variable', `${path}/variables?new`],
      ['paste a .env', `${path}/variables?paste`],
      ['api keys', `${path}/keys`],
      ['new api key', `${path}/keys?new`],
      ['deploy', `${path}?deploy`],
      ['overview', path],
      ['organization', `${organization}/~/organization`],
      ['applications', organization],
      ['new application', `${organization}?new`],
      ['new organization', '/?new'],
    ] as const) {
      if (!pathOf(page).startsWith(path)) {
        await go(page, path)
        await expect.poll(() => pathOf(page)).toBe(path)
      }
      await take(page, name === 'deploy' ? 'deploy shop' : name)
      await expect.poll(() => pathOf(page), { message: name }).toBe(target)
    }
    await page.getByLabel('Name of the organization').waitFor()
    // Whole words come first. Of all that fit, the arrow keys choose, and the end leads to the beginning.
    await go(page, path)
    await openPalette(page)
    await page.keyboard.type('service 7 overview')
    await expect.poll(() => options(page).first().innerText()).toMatch(/ Service 7$/)
    expect(await options(page).count()).toBeGreaterThan(10)
    await page.keyboard.press('ArrowUp')
    await expect.poll(() => options(page).last().getAttribute('aria-selected')).toBe('true')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await expect.poll(() => pathOf(page)).toBe(`${organization}/service-7`)
    expect(faults).toEqual([])
    await context.close()
  })

  test('the list offers what a page can do, and does it', async () => {
    const { path, owner, person } = await newHome(platform)
    await deployed(platform, { owner }, { git: git('The first') })
    await deployed(platform, { owner }, { git: git('The second'), isCurrent: true })
    const { context, page, faults } = await openAs(person, `${path}/deployments`)
    await page.getByRole('cell', { name: 'Live' }).waitFor()
    await take(page, 'roll back to the first')
    await page.getByRole('status').filter({ hasText: 'The first is live in production' }).waitFor()
    await take(page, 'the second')
    await page.getByRole('heading', { level: 1, name: 'The second' }).waitFor()
    await take(page, 'image cache')
    await page.getByText('No image has been asked for yet.').waitFor()

    // A form opens on the page where one is, too, and again after it was closed.
    await take(page, 'overview shop')
    for (let times = 0; times < 2; times++) {
      await page.getByRole('button', { name: 'Deploy', exact: true, expanded: false }).waitFor()
      await take(page, 'deploy shop')
      await page.getByRole('button', { name: 'Choose a folder' }).waitFor()
      await page.getByRole('button', { name: 'Deploy', exact: true }).click()
    }
    await take(page, 'new application')
    await page.getByLabel('Name of the application').waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test('a member is not offered what owners and administrators alone may do', async () => {
    const member = await platform.person()
    await platform.api.db.insert(members).values({
      id: randomUUID(),
      organizationId: home.owner.organizationId,
      userId: member.userId,
      role: 'MEMBER',
      joinedAt: new Date(),
    })
    const offered: Record<string, string[]> = {}
    for (const [role, person] of [
      ['OWNER', home.person],
      ['MEMBER', member],
    ] as const) {
      const { context, page } = await openAs(person, home.path)
      await page.getByRole('button', { name: 'Choose a hostname' }).waitFor()
      await openPalette(page)
      const found = async (query: string, count: number): Promise<string[]> => {
        await combobox(page).fill(query)
        await expect.poll(() => options(page).count(), { message: query }).toBe(count)
        return options(page).allInnerTexts()
      }
      // The role is known once what an owner alone is offered, or the member's reason, is there.
      offered[role] = [
        ...(await found('new api key shop', role === 'OWNER' ? 1 : 0)),
        ...(await found('new variable shop', 1)),
      ].map((text) => text.split('\n')[0] ?? '')
      await context.close()
    }
    expect(offered).toEqual({
      OWNER: ['New API key', 'New variable'],
      MEMBER: ['New variable'],
    })
  })

  test('single keys do what the list of keys says, in no text field, and can be switched off', async () => {
    const { context, page, faults } = await openAs(home.person, home.path)
    const keys = page.getByRole('dialog', { name: 'Keys' })
    await page.keyboard.press('?')
    await keys.waitFor()
    expect(await look(page, 'keys')).toEqual([])
    await page.keyboard.press('Escape')
    await keys.waitFor({ state: 'detached' })
    await page.keyboard.press('/')
    await combobox(page).waitFor()
    // Here they are text.
    await page.keyboard.type('?/')
    expect(await combobox(page).inputValue()).toBe('?/')
    await page.keyboard.press('Escape')

    await go(page, `${home.organization}?new`)
    const field = page.getByLabel('Name of the application')
    await field.click()
    await page.keyboard.type('a/b?')
    expect(await field.inputValue()).toBe('a/b?')
    expect(await page.getByRole('dialog').count()).toBe(0)

    await go(page, home.path)
    await page.getByRole('heading', { level: 1, name: 'Shop' }).waitFor()
    await page.keyboard.press('?')
    await page.getByLabel('Keys without Ctrl or ⌘ do something').uncheck()
    await page.keyboard.press('Escape')
    await keys.waitFor({ state: 'detached' })
    await page.keyboard.press('?')
    await page.keyboard.press('/')
    // What has a modifier goes on, and comes after the two.
    await openPalette(page)
    expect(await page.getByRole('dialog').count()).toBe(1)
    await page.keyboard.press('Escape')
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Shop' }).waitFor()
    await page.keyboard.press('?')
    await openPalette(page)
    expect(await page.getByRole('dialog').count()).toBe(1)
    expect(faults).toEqual([])
    await context.close()
  })
})
