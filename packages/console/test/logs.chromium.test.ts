import { randomUUID } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { isDrill } from '@platform/testkit/test-environment'
import { describeInChromium } from '@platform/testkit/chromium'
import type { TestPlatform } from '@platform/testing/platform'
import type { RequestLog } from '@platform/sdk'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ServedRequest } from '../../../services/api/src/areas/observe/request-logs/write.ts'
import { deploy } from '../../../services/api/test/deploy.ts'
import { isOfFilter, type RequestFilter } from '../src/screens/logs/matches.ts'
import { newPlace, openSignedIn, type Place, startWithConsole, watch } from './console.ts'
import { addLines, addLogs, addManyLines, addRequests, type LogPlace } from './states-logs.ts'

let platform: TestPlatform

beforeAll(async () => {
  platform = await startWithConsole({ hasWorker: false })
})

afterAll(() => platform.close())

interface LoggedPlace extends Place, LogPlace {}

async function newLoggedPlace(): Promise<LoggedPlace> {
  const place = await newPlace(platform)
  const { id } = await deploy(platform, place.owner, {})
  return { ...place, applicationId: place.owner.applicationId, deploymentId: id }
}

const elementCount = (page: Page): Promise<number> => page.evaluate(() => document.querySelectorAll('*').length)
const list = (page: Page, name = 'Requests') => page.getByRole('region', { name, exact: true })
const rows = (page: Page) => list(page).getByRole('link')
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const query = (page: Page): Record<string, string> => Object.fromEntries(new URL(page.url()).searchParams)
const live = (page: Page) => page.getByRole('banner').getByText('Live', { exact: true }).waitFor()

/** Looks away from a page, or at it again. */
const lookAway = (page: Page, isAway: boolean): Promise<void> =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })
    Object.defineProperty(document, 'visibilityState', { value: hidden ? 'hidden' : 'visible', configurable: true })
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
  }, isAway)

/** Paths of the API that a page asks about logs. */
function askedAboutLogs(page: Page): string[] {
  const asked: string[] = []
  page.on('request', (request) => {
    const { origin, pathname, search } = new URL(request.url())
    if (origin === platform.apiUrl && /\/(?:requests|runtime-logs)\b/.test(pathname)) asked.push(pathname + search)
  })
  return asked
}

describeInChromium('the logs', (open) => {
  test('filters of requests stand in the address, survive a reload, and keep away what does not fit', async () => {
    const place = await newLoggedPlace()
    await addLogs(platform, place)
    const { context, page } = await open()
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs`)
    const status = page.getByRole('group', { name: 'Status' })
    await status.getByRole('link', { name: '5xx 8', exact: true }).click()
    await page.getByText('8 requests', { exact: true }).waitFor()
    await page.getByLabel('Path begins with').fill('/api/')
    await page.getByLabel('Path begins with').press('Enter')
    await page.getByText('4 requests', { exact: true }).waitFor()
    await page.getByText('More filters', { exact: true }).click()
    await page.getByLabel('Method').fill('post')
    await page.getByLabel('Method').press('Enter')
    await page.getByText('1 request', { exact: true }).waitFor()
    expect(query(page)).toEqual({ statusFamily: '5xx', pathPrefix: '/api/', method: 'POST' })
    await live(page)

    const asked = askedAboutLogs(page)
    await page.reload()
    await page.getByText('1 request', { exact: true }).waitFor()
    const listed = new URL(asked.find((path) => path.includes('/requests?')) ?? '', platform.apiUrl).searchParams
    expect(Object.fromEntries(listed)).toEqual({ ...query(page), limit: '200' })
    expect(await rows(page).allInnerTexts()).toEqual([expect.stringContaining('/api/checkout?step=pay')])
    expect(await status.getByRole('link', { name: '5xx 8', exact: true }).getAttribute('aria-current')).toBe('true')
    expect(await page.getByLabel('Method').inputValue()).toBe('POST')
    expect(await page.getByLabel('Path begins with').inputValue()).toBe('/api/')

    // The stream has no filters: what comes is chosen here.
    await live(page)
    await addRequests(platform, place, [
      { path: '/elsewhere', method: 'POST', status: 500 },
      { path: '/api/late', method: 'POST', status: 503 },
    ])
    await list(page).getByText('/api/late').waitFor()
    expect(await list(page).getByText('/elsewhere').count()).toBe(0)
    await page.getByRole('link', { name: 'Clear all filters' }).click()
    await list(page).getByText('/elsewhere').waitFor()
    expect(query(page)).toEqual({})
    expect(faults).toEqual([])
    await context.close()
  })

  test('following holds while one scrolls up, and counts the requests that came', async () => {
    const place = await newLoggedPlace()
    const many = (count: number, path: string): Partial<ServedRequest>[] =>
      Array.from({ length: count }, (_, n) => ({ path: `${path}/${n}`, startedAt: new Date(Date.now() - 1_000 + n) }))
    await addRequests(platform, place, many(300, '/old'))
    const { context, page } = await open()
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs`)
    await list(page).getByText('/old/299').waitFor()
    await live(page)
    await list(page).hover()
    await page.mouse.wheel(0, -1_600)
    await button(page, 'To the end').waitFor()
    await expect.poll(() => list(page).getByText('/old/299').count()).toBe(0)
    const inView = (): Promise<string[]> => rows(page).allInnerTexts()
    const held = await inView()
    await addRequests(platform, place, many(214, '/new'))
    await button(page, '214 new').waitFor()
    expect(await inView()).toEqual(held)
    expect(await button(page, 'Follow').getAttribute('aria-pressed')).toBe('true')

    // What comes at the top is no news.
    await list(page).focus()
    await page.keyboard.press('Home')
    await page.getByText('514 requests', { exact: true }).waitFor()
    await button(page, '214 new').click()
    await list(page).getByText('/new/213').waitFor()
    await addRequests(platform, place, [{ path: '/last' }])
    await list(page).getByText('/last').waitFor()
    expect(await page.getByRole('button', { name: / new$/ }).count()).toBe(0)
    expect(faults).toEqual([])
    await context.close()
  })

  test('a window that is looked away from asks nothing, then catches up, and a row counts what it left out', async () => {
    const place = await newLoggedPlace()
    await addRequests(platform, place, [{ path: '/before' }])
    const { context, page } = await open()
    const { faults } = await watch(context, platform)
    await page.clock.install()
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs`)
    await live(page)
    await addRequests(platform, place, [{ path: '/streamed' }])
    await list(page).getByText('/streamed').waitFor()
    await lookAway(page, true)
    await page.clock.runFor(31_000)
    const asked = askedAboutLogs(page)
    const now = Date.now()
    await addRequests(
      platform,
      place,
      Array.from({ length: 6_000 }, (_, n) => ({ path: `/away/${n}`, startedAt: new Date(now + Math.floor(n / 10)) })),
    )
    await page.clock.runFor(300_000)
    expect(asked).toEqual([])
    await lookAway(page, false)
    await list(page).getByText('/away/5999').waitFor()
    await list(page).getByText('/streamed').waitFor({ state: 'detached' })
    await list(page).focus()
    await page.keyboard.press('Home')
    await list(page).getByText('1,000 requests were left out').waitFor()
    expect((await list(page).innerText()).replaceAll(/\s+/g, ' ')).toMatch(
      /\/before .* \/streamed .* 1,000 requests were left out .* \/away\/1000 /,
    )
    await page.getByText('6,002 requests', { exact: true }).waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test('a request opens by its address or a press with its headers and what its Function printed, and Escape and Back close it', async () => {
    const place = await newLoggedPlace()
    const { requestId } = await addLogs(platform, place)
    const { context, page } = await open({ viewport: { width: 390, height: 800 } })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs`)
    await list(page).getByText('/api/checkout?step=pay').click()
    const detail = page.getByRole('region', { name: 'Request', exact: true })
    await detail.getByText('TypeError: the price of tea is undefined').waitFor()
    expect(query(page)).toEqual({ request: requestId })
    const text = await detail.innerText()
    for (const words of [
      'x-cart: ccc',
      'user-agent: curl/8.9.1',
      'cache-control: no-store',
      'paying 42.00 EUR',
      '412 ms',
    ])
      expect(text).toContain(words)
    expect(text).not.toContain('cart 38')
    expect(await detail.getByRole('link', { name: `…${place.deploymentId.slice(-6)}` }).getAttribute('href')).toBe(
      `${place.path}/deployments/${place.deploymentId}`,
    )
    await page.keyboard.press('Escape')
    await detail.waitFor({ state: 'detached' })
    expect(query(page)).toEqual({})
    await page.goBack()
    await detail.getByText('paying 42.00 EUR').waitFor()
    await page.goBack()
    await detail.waitFor({ state: 'detached' })

    await page.goto(`${platform.consoleUrl}${place.path}/logs?request=${requestId}`)
    await detail.getByRole('link', { name: '2 lines among those of the application' }).click()
    await page.getByText('2 lines', { exact: true }).waitFor()
    expect(query(page)).toEqual({ view: 'lines', requestId })
    await page.getByText('TypeError: the price of tea').waitFor()
    await page.getByRole('link', { name: 'api/checkout' }).first().click()
    await detail.getByText('paying 42.00 EUR').waitFor()
    await page.goto(`${platform.consoleUrl}${place.path}/logs?request=${randomUUID()}`)
    await detail.getByText('This is gone, or was never there for you').waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  // Each thousand is a page of the API: the view itself has 100,000 in log-view.chromium.test.ts.
  const size = isDrill ? 100_000 : 12_000

  test('lines are chosen by level, text and deployment, and a link to one of many thousand leads to it with few elements in the page', async () => {
    const place = await newLoggedPlace()
    const firstId = await addManyLines(platform, place, size)
    const { context, page } = await open({ viewport: { width: 1_280, height: 800 } })
    const { faults } = await watch(context, platform)
    const lines = list(page, 'Runtime lines')
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs?view=lines&line=${firstId}`)
    await lines.getByText('the very first').waitFor({ timeout: 60_000 })
    await page.getByText(new RegExp(`^${size.toLocaleString('en').slice(0, -1)}\\d lines$`)).waitFor()
    expect(await lines.locator('[data-marked]').innerText()).toContain('the very first')
    expect(await elementCount(page)).toBeLessThanOrEqual(2_000)
    await lines.evaluate((element) => (element.scrollTop = element.scrollHeight / 2))
    await lines.getByText(`line ${size / 2} of many`, { exact: true }).waitFor()
    expect(await elementCount(page)).toBeLessThanOrEqual(2_000)
    await live(page)
    await addLines(platform, place, [{ message: 'one more' }])
    await button(page, '1 new').click()
    await lines.getByText('one more').waitFor()
    expect(await elementCount(page)).toBeLessThanOrEqual(2_000)

    const { deploymentId } = place
    await page.goto(
      `${platform.consoleUrl}${place.path}/logs?view=lines&level=ERROR&search=LINE+9&deploymentId=${deploymentId}`,
    )
    await page.getByText(isDrill ? '11 lines so far' : '1 line', { exact: true }).waitFor()
    expect(await page.getByLabel('Deployment').inputValue()).toBe(deploymentId)
    await live(page)
    await addLines(platform, place, [
      { level: 'ERROR', message: 'something else' },
      { level: 'INFO', message: 'line 9 that is no error' },
      { level: 'ERROR', message: 'line 9 that is one', deploymentId: newId() },
      { level: 'ERROR', message: 'line 9 that fits' },
    ])
    await lines.getByText('line 9 that fits').waitFor()
    await page.getByText(isDrill ? '12 lines so far' : '2 lines', { exact: true }).waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test("a filter that is wrong, such as another application's deployment, is told at its field, and nothing of the logs is asked for", async () => {
    const place = await newLoggedPlace()
    const other = await newLoggedPlace()
    // One that the person may see, of another application.
    const { body } = await platform.call(place.owner.token, 'POST /applications', {
      name: 'Another',
      organizationId: place.owner.organizationId,
    })
    const { id: neighbour } = await deploy(platform, { ...place.owner, applicationId: body.id }, {})
    const { context, page } = await open()
    const { faults } = await watch(context, platform)
    const asked = askedAboutLogs(page)
    await openSignedIn(page, platform, place.owner.person, `${place.path}/logs?deploymentId=${neighbour}`)
    /** What stands at a field. */
    const see = async (label: string, sentence: string): Promise<void> => {
      const field = page.getByLabel(label, { exact: true })
      await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true')
      const told = await field.getAttribute('aria-describedby')
      await expect.poll(() => page.locator(`[id="${told}"]`).innerText()).toContain(sentence)
      await page.getByText('Nothing is asked for as long as a filter is wrong.').waitFor()
      expect(asked).toEqual([])
    }
    await see('Deployment', 'This deployment belongs to another application.')
    const logs = `${platform.consoleUrl}${place.path}/logs`
    await page.goto(`${logs}?view=lines&deploymentId=${neighbour}`)
    await see('Deployment', 'This deployment belongs to another application.')
    await page.goto(`${logs}?deploymentId=${other.deploymentId}`)
    await see('Deployment', 'There is no such deployment that you may see.')
    await page.goto(`${logs}?deploymentId=mine&status=99&from=yesterday&country=de&cacheHit=maybe&deploymentAssetId=1`)
    await see('Deployment', 'This is no id')
    await see('Exact status', 'Expected a status from 100 to 599.')
    await see('From', '“yesterday” is no time')
    await see('Country', 'Expected two capital letters')
    await see('Answered by the cache', '“maybe” is none of true, false.')
    await see('File of a deployment', 'This is no id')
    await page.goto(`${logs}?from=2026-01-02T00:00:00.000Z&to=2026-01-01T00:00:00.000Z`)
    await see('Until', 'This is not after the beginning.')
    await page.goto(`${logs}?statusFamily=6xx`)
    await page.getByText('“6xx” is none of 1xx, 2xx, 3xx, 4xx, 5xx.').waitFor()
    expect(asked).toEqual([])

    await page.getByRole('link', { name: 'Clear all filters' }).click()
    await page.getByText('Nobody has asked for anything yet.').waitFor()
    expect(asked.length).toBeGreaterThan(0)
    expect(faults).toEqual([])
    await context.close()
  })
})

/** Always the same numbers from 0 to max − 1. */
function drawing(seed: number): (max: number) => number {
  let state = seed
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * max)
  }
}

test('the console takes a request of the stream exactly where the API would list it, over drawn requests and filters (D96)', async () => {
  const place = await newLoggedPlace()
  const { applicationId, deploymentId, owner } = place
  const draw = drawing(20_261_129)
  const one = <T>(values: readonly T[]): T => values[draw(values.length)] as T
  const ids = Array.from({ length: 4 }, () => newId())
  const paths = ['/', '/api', '/api/', '/api/a', '/API/a', '/a_i/x', '/a%i', '*', '/api/%5F']
  const cacheStatuses = ['hit', 'miss', 'bypass', 'revalidated', 'stale', 'updating', undefined] as const
  const begin = Math.floor(Date.now() / 1_000) * 1_000 - 60_000
  const thing = <T extends object>(more: T): (T & { id: string }) | undefined =>
    draw(3) === 0 ? { id: one(ids), ...more } : undefined
  const some = <T extends object>(members: T): T =>
    Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T
  await addRequests(
    platform,
    place,
    Array.from({ length: 250 }, () => {
      const startedAt = new Date(begin + draw(20) * 1_000)
      const request: Partial<ServedRequest> = {
        startedAt,
        completedAt: new Date(startedAt.getTime() + draw(30_000)),
        deploymentId: one([deploymentId, ids[0], undefined]),
        method: one(['GET', 'POST']),
        status: one([200, 204, 301, 404, 499, 500, 502]),
        hostname: one(['a.example.com', 'b.example.com']),
        path: one(paths),
        country: one(['DE', 'FR', undefined]),
        cacheStatus: one(cacheStatuses),
        region: one(['eu', undefined]),
        edgeLocation: one(['fra', undefined]),
        servedBy: some({
          deploymentFunction: thing({ name: 'f', path: 'f', region: null }),
          deploymentAsset: thing({ path: 'a', objectKey: 'a' }),
          storageBucket: thing({ name: 'b', slug: 'b' }),
          storageObject: thing({ key: 'o', contentType: 'x' }),
        }),
      }
      return request
    }),
  )
  const ask = async (filter: object): Promise<RequestLog[]> => {
    const search = new URLSearchParams({ limit: '1000', ...(filter as Record<string, string>) }).toString()
    const { status, body } = await platform.call(owner.token, `GET /applications/${applicationId}/requests?${search}`)
    expect(status).toBe(200)
    return body.items
  }
  const all = await ask({})
  expect(all).toHaveLength(250)
  const at = (): string => new Date(begin + draw(20) * 1_000).toISOString()
  const filters: { [Name in keyof RequestFilter]-?: () => string | number } = {
    from: at,
    to: at,
    method: () => one(['GET', 'PUT']),
    status: () => one([200, 404, 418]),
    statusFamily: () => one(['2', '2xx', '3xx', '4', '5xx', '1xx']),
    hostname: () => 'a.example.com',
    pathPrefix: () => one([...paths, '/a_', '/api/%', '/A']),
    country: () => one(['DE', 'IS']),
    cacheStatus: () => one(cacheStatuses.filter((status) => status !== undefined)),
    cacheHit: () => one(['true', 'false']),
    deploymentId: () => one([deploymentId, ids[0] ?? '', (ids[0] ?? '').toUpperCase()]),
    deploymentFunctionId: () => one(ids).toUpperCase(),
    deploymentAssetId: () => one(ids),
    storageBucketId: () => one(ids),
    storageObjectId: () => one(ids),
    region: () => one(['eu', 'us']),
    edgeLocation: () => one(['fra', 'nyc']),
  }
  const names = Object.keys(filters) as (keyof RequestFilter)[]
  const drawn = names.flatMap((name) => Array.from({ length: 4 }, () => [name]))
  for (let n = 0; n < 60; n++) drawn.push([one(names), one(names)])
  let listed = 0
  for (const members of drawn) {
    const filter = Object.fromEntries(members.map((name) => [name, filters[name]()])) as RequestFilter
    const expected = (await ask(filter)).map(({ id }) => id)
    listed += expected.length
    expect({ filter, ids: all.filter((request) => isOfFilter(filter, request)).map(({ id }) => id) }).toEqual({
      filter,
      ids: expected,
    })
  }
  expect(listed).toBeGreaterThan(500)
})
