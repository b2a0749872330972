import { newId } from '@platform/runtime/new-id'
import { describeInChromium } from '@platform/testkit/chromium'
import type { TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildLogs } from '../../../services/api/src/areas/deploy/deployments/table.ts'
import { deploy } from '../../../services/api/test/deploy.ts'
import { newPlace, openSignedIn, type Place, startWithConsole, watch } from './console.ts'
import { type ForwardProxy, startForwardProxy } from './forward-proxy.ts'

let platform: TestPlatform
let proxy: ForwardProxy

beforeAll(async () => {
  platform = await startWithConsole({ hasWorker: false })
  proxy = await startForwardProxy(platform.apiUrl)
})

afterAll(async () => {
  await proxy.close()
  await platform.close()
})

/** Something happens to the application, of which its page tells. */
async function createVariable({ owner }: Place, key: string): Promise<void> {
  const answer = await platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, {
    key,
    value: 'x',
  })
  expect(answer.status).toBe(201)
}

/** A deployment that is being built, and what writes its log. */
async function newBuild({ owner, path }: Place) {
  const { id } = await deploy(platform, owner, { status: 'BUILDING', isCurrent: false })
  let at = Date.now()
  const write = async (...messages: string[]): Promise<void> => {
    const rows = messages.map((message) => ({
      deploymentId: id,
      id: newId(),
      createdAt: new Date(++at),
      type: 'INFO' as const,
      message,
    }))
    await platform.api.db.insert(buildLogs).values(rows)
  }
  return { path: `${path}/deployments/${id}`, write }
}

/** Looks away from a page, or at it again: all that a page notices of it. */
const look = (page: Page, isAway: boolean): Promise<void> =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })
    Object.defineProperty(document, 'visibilityState', { value: hidden ? 'hidden' : 'visible', configurable: true })
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
  }, isAway)

const streams = (): number => [...proxy.open].filter((path) => path.includes('/stream')).length
const header = (page: Page, word: string) => page.getByRole('banner').getByText(word, { exact: true })
const oldBanner = (page: Page) => page.getByText('What you see is old')

describeInChromium('what is kept up to date', (open) => {
  test('of ten windows four hold a stream, the others ask, and all of them are right', async () => {
    const place = await newPlace(platform)
    await deploy(platform, place.owner, {})
    const { context, page } = await open({ proxy: proxy.settings })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, place.path)
    const pages = [page]
    while (pages.length < 10) {
      const next = await context.newPage()
      await next.goto(platform.consoleUrl + place.path)
      await next.getByRole('heading', { level: 2, name: 'Activity' }).waitFor()
      pages.push(next)
    }
    const countOf = async (word: string): Promise<number> => {
      const counts = await Promise.all(pages.map((each) => header(each, word).count()))
      return counts.reduce((sum, count) => sum + count, 0)
    }
    await expect.poll(() => countOf('Live')).toBe(4)
    await expect.poll(() => countOf('Polling')).toBe(6)
    expect(streams()).toBe(4)

    await createVariable(place, 'TOLD_TO_ALL')
    for (const each of pages) await each.getByText('Variable TOLD_TO_ALL created').first().waitFor()

    // A window that goes gives its stream to one that asks.
    for (const [at, each] of pages.entries())
      if ((await header(each, 'Live').count()) === 1) {
        pages.splice(at, 1)
        await each.close()
        break
      }
    await expect.poll(() => countOf('Live')).toBe(4)
    expect(streams()).toBe(4)
    expect(faults).toEqual([])
    await context.close()
  })

  test('a hidden window lets its stream go after 30 seconds, asks nothing for ten minutes, and catches up when it is seen', async () => {
    const place = await newPlace(platform)
    await deploy(platform, place.owner, {})
    const { context, page } = await open({ proxy: proxy.settings })
    const { faults } = await watch(context, platform)
    await page.clock.install()
    await openSignedIn(page, platform, place.owner.person, place.path)
    await createVariable(place, 'BEFORE')
    await page.getByText('Variable BEFORE created').first().waitFor()
    await expect.poll(streams).toBe(1)

    await look(page, true)
    await page.clock.runFor(29_000)
    expect(streams()).toBe(1)
    await page.clock.runFor(2_000)
    await expect.poll(streams).toBe(0)
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    await createVariable(place, 'MEANWHILE')
    await page.clock.runFor(600_000)
    expect(asked).toEqual([])
    expect(await page.getByText('Variable MEANWHILE created').count()).toBe(0)

    await look(page, false)
    await page.getByText('Variable MEANWHILE created').first().waitFor()
    await header(page, 'Live').waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  const failures: [name: string, fail: () => void][] = [
    ['a cut connection', () => proxy.cut()],
    ['answers of 503', () => proxy.answer(503)],
    ['answers of 429', () => proxy.answer(429)],
  ]
  test.each(failures)(
    'after %s what is shown is marked as old, and no line of the log is lost or doubled',
    async (_, fail) => {
      const place = await newPlace(platform)
      const build = await newBuild(place)
      const { context, page } = await open({ proxy: proxy.settings })
      const { faults } = await watch(context, platform)
      await page.clock.install()
      await openSignedIn(page, platform, place.owner.person, build.path)
      await build.write('line one', 'line two')
      await page.getByText('line two').waitFor()
      expect(await oldBanner(page).count()).toBe(0)

      fail()
      await build.write('line three', 'line four')
      await page.clock.runFor(31_000)
      await oldBanner(page).waitFor()
      expect(await page.getByText('line three').count()).toBe(0)

      proxy.mend()
      await expect
        .poll(async () => {
          // Pauses between attempts pass quickly.
          await page.clock.runFor(5_000)
          return page.getByText('line four').count()
        })
        .toBe(1)
      await expect.poll(() => oldBanner(page).count()).toBe(0)
      for (const word of ['one', 'two', 'three', 'four']) expect(await page.getByText(`line ${word}`).count()).toBe(1)
      expect(faults).toEqual([])
      await context.close()
    },
  )

  test('a browser without a network says so at once, and goes on where it was', async () => {
    const place = await newPlace(platform)
    const build = await newBuild(place)
    const { context, page } = await open({ proxy: proxy.settings })
    await openSignedIn(page, platform, place.owner.person, build.path)
    await build.write('line one')
    await page.getByText('line one').waitFor()
    await context.setOffline(true)
    await oldBanner(page).waitFor()
    await header(page, 'Offline').waitFor()
    await build.write('line two')
    await context.setOffline(false)
    await page.getByText('line two').waitFor()
    await expect.poll(() => oldBanner(page).count()).toBe(0)
    for (const word of ['one', 'two']) expect(await page.getByText(`line ${word}`).count()).toBe(1)
    await context.close()
  })

  test('an application is shown by six requests to the API and one stream', async () => {
    const place = await newPlace(platform)
    await deploy(platform, place.owner, {})
    const { context, page } = await open({ proxy: proxy.settings })
    await openSignedIn(page, platform, place.owner.person, place.path)
    await header(page, 'Live').waitFor()
    const asked: string[] = []
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (url.origin === platform.apiUrl && request.method() !== 'OPTIONS')
        asked.push(url.pathname.replaceAll(/[0-9a-f-]{36}/g, 'ID'))
    })
    await page.reload()
    await page.getByText('Nobody asked for anything').waitFor()
    await header(page, 'Live').waitFor()
    expect(asked.filter((path) => !path.startsWith('/.well-known/')).sort()).toEqual([
      '/applications',
      '/applications/ID/activity',
      '/applications/ID/activity/stream',
      '/applications/ID/hostnames',
      '/applications/ID/requests/summary',
      '/deployments',
      '/organizations',
    ])
    await context.close()
  })

  test('the end of a token is bridged without a word', async () => {
    const place = await newPlace(platform)
    const build = await newBuild(place)
    const { context, page } = await open({ proxy: proxy.settings })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, build.path)
    await build.write('line one')
    await page.getByText('line one').waitFor()
    const renewed = page.waitForResponse((answer) => answer.url().endsWith('/oauth2/token') && answer.ok())
    platform.clock.advance(301_000)
    // As when the platform ends a stream after 15 minutes.
    proxy.cut()
    proxy.mend()
    await build.write('line two')
    await renewed
    await page.getByText('line two').waitFor()
    for (const word of ['one', 'two']) expect(await page.getByText(`line ${word}`).count()).toBe(1)
    expect(await oldBanner(page).count()).toBe(0)
    expect(faults).toEqual([])
    await context.close()
  })
})
