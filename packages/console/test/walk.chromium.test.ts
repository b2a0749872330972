import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeInChromium } from '@platform/testkit/chromium'
import type { TestPlatform } from '@platform/testing/platform'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveCredentials, startWithConsole, watch } from './console.ts'
import { type Hand, handOf, means } from './hands.ts'

let platform: TestPlatform
let sites: string

const files: Record<string, Record<string, string>> = {
  first: {
    'index.html': '<!doctype html><title>Shop</title><h1>The first version</h1>',
    'img/logo.txt': 'a logo',
    '.env': 'PASSWORD=hunter2',
  },
  second: { 'index.html': '<!doctype html><title>Shop</title><h1>The second version, which is wrong</h1>' },
  broken: {
    'package.json': JSON.stringify({ name: 'shop', private: true, scripts: { build: 'node build.js' } }),
    'build.js': "console.log('compiling')\nconsole.error('Error: the price of tea is undefined')\nprocess.exit(1)\n",
  },
}

beforeAll(async () => {
  platform = await startWithConsole()
  sites = await mkdtemp(join(tmpdir(), 'sites-'))
  for (const [site, contents] of Object.entries(files))
    for (const [path, content] of Object.entries(contents)) {
      await mkdir(join(sites, site, path, '..'), { recursive: true })
      await writeFile(join(sites, site, path), content)
    }
})

afterAll(async () => {
  await platform.close()
  await rm(sites, { recursive: true })
})

describeInChromium('the way from nothing to a page that runs, and back', (open) => {
  test.each(means)('it can be gone by %s alone', async (by) => {
    const person = await platform.person()
    const { context, page } = await open({ viewport: { width: 1280, height: 800 } })
    const { faults } = await watch(context, platform)
    const hand = handOf(page, by)
    const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' })
    const link = (name: string) => page.getByRole('main').getByRole('link', { name })
    /** Gives a folder to the page, as the person's own hand would: by drop, or by the button. */
    const give = async (site: string): Promise<void> => {
      if (by === 'mouse') await drop(page, site)
      else {
        const chooser = page.waitForEvent('filechooser')
        await hand.press(button('Choose a folder'))
        await (await chooser).setFiles(join(sites, site))
      }
    }
    const state = page.locator('dd').first()
    const send = page.getByRole('region', { name: /^Deploy / }).getByRole('button', { name: 'Deploy', exact: true })

    await page.goto(platform.consoleUrl)
    if (by === 'mouse') await giveCredentials(page, person)
    else {
      await hand.type(page.getByLabel('Email'), person.email)
      await hand.type(page.getByLabel('Password', { exact: true }), person.password)
      await page.keyboard.press('Enter')
    }
    await hand.type(page.getByLabel('Name of the organization'), `Acme ${by}`)
    await hand.press(button('Create organization'))
    await hand.type(page.getByLabel('Name of the application'), `Shop ${by}`)
    await hand.press(button('Create application'))
    await page.getByRole('heading', { level: 1, name: `Shop ${by}` }).waitFor()

    // A secret of the folder is named, and stays here.
    await give('first')
    await expect.poll(() => page.getByRole('listitem').filter({ hasText: '.env' }).count()).toBe(1)
    await hand.press(send)
    await state.getByText('Live').waitFor()
    await expect.poll(() => page.getByText('Ready in').count()).toBe(1)
    expect(await visit(hand, page, page.getByRole('main').getByRole('link', { name: 'Open in a new tab' }))).toContain(
      'The first version',
    )
    await hand.press(link('Files'))
    await page.getByRole('cell', { name: 'img/logo.txt' }).waitFor()
    expect(await page.getByText('.env').count()).toBe(0)

    const deployNext = async (site: string): Promise<void> => {
      await hand.press(
        page.getByRole('navigation', { name: 'Parts', exact: true }).getByRole('link', { name: 'Deployments' }),
      )
      await hand.press(link('Deploy').first())
      await give(site)
      await hand.press(send)
    }
    await deployNext('second')
    await state.getByText('Live').waitFor()

    // What does not build leaves what is live as it was, and says why.
    await deployNext('broken')
    await state.getByText('Failed').waitFor()
    await hand.press(button(/^Next error/))
    await page.getByText('the price of tea is undefined').waitFor()

    await hand.press(
      page.getByRole('navigation', { name: 'Parts', exact: true }).getByRole('link', { name: 'Deployments' }),
    )
    const live = page.getByRole('row').filter({ hasText: 'Live' })
    const nameOfLive = (): Promise<string> => live.getByRole('link').first().innerText()
    const second = await nameOfLive()
    await hand.press(button(/^Roll back/))
    await page.getByRole('status').filter({ hasText: 'is live in production' }).waitFor()
    await expect.poll(nameOfLive).not.toBe(second)
    // Edges are told within a second.
    const visitLive = (): Promise<string> => visit(hand, page, live.getByRole('link', { name: /^Open/ }))
    await expect.poll(visitLive).toContain('The first version')

    await hand.press(button('Undo'))
    await page.getByRole('status').filter({ hasText: 'again' }).waitFor()
    await expect.poll(nameOfLive).toBe(second)
    await expect.poll(visitLive).toContain('The second version')
    expect(faults).toEqual([])
    await context.close()
  })
})

/** Opens a link in a new tab, and reads what is there. */
async function visit(hand: Hand, page: Page, link: Locator): Promise<string> {
  const [tab] = await Promise.all([page.waitForEvent('popup'), hand.press(link)])
  await tab.waitForLoadState()
  const text = await tab.locator('body').innerText()
  await tab.close()
  return text
}

/** Drops a folder of this machine onto the page: Chromium makes the event from what lies on the disk. */
async function drop(page: Page, site: string): Promise<void> {
  const target = page.getByText('Drop a folder or a zip archive here')
  await target.scrollIntoViewIfNeeded()
  const box = await target.boundingBox()
  if (!box) throw new Error('There is nothing to drop onto')
  const cdp = await page.context().newCDPSession(page)
  const data = { items: [], files: [join(sites, site)], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await cdp.send('Input.dispatchDragEvent', { type, x: box.x + 10, y: box.y + 5, data })
  await cdp.detach()
}
