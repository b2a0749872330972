import { randomUUID } from 'node:crypto'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import type { Locator, Page, Route } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { setQuota } from '../../../services/api/src/areas/tenancy/products/quotas.ts'
import { openSignedIn, startWithConsole, watch } from './console.ts'
import { DESKTOP, go, look, settled } from './states-look.ts'
import {
  addFunctionAt,
  addMessages,
  deployed,
  type Full,
  git,
  LINES,
  newFull,
  newHome,
  removeApplication,
} from './states.ts'
import { logScreens } from './states-logs.ts'
import { keyForms, keyScreens } from './states-keys.ts'
import { variableEmpties, variableForms, variableScreens } from './states-variables.ts'

/** Patience for a test that looks at many pages. */
const LONG_MS = 300_000

const parts = ['log', 'files', 'functions', 'crons', 'hostnames', 'images', 'variables'] as const
const partPath = (path: string, id: string, part: (typeof parts)[number]): string =>
  `${path}/deployments/${id}${part === 'log' ? '' : `/${part}`}`

const snapshotOf = (name: string): string => `./snapshots/${name.replaceAll(' ', '-')}.yml`

const main = (page: Page) => page.getByRole('main')
const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name, exact: true })
const button = (page: Page, name: string | RegExp) => main(page).getByRole('button', { name, exact: true })
const alerts = (page: Page) => main(page).getByRole('alert')
const skeletons = (page: Page) => page.locator('[aria-busy=true] div > div')

describeInChromium('the screens of the console', (open) => {
  let platform: TestPlatform
  let full: Full
  beforeAll(async () => {
    platform = await startWithConsole({ hasWorker: false })
    full = await newFull(platform)
  })
  // All windows have one address, from which a sign-in is one of 600 requests a minute at most (A §8).
  beforeEach(() => platform.clock.advance(60_000))
  afterAll(() => platform.close())

  /** A window of somebody who is signed in. */
  async function openAs(person: Person, path: string, options: Parameters<OpenPage>[0] = {}) {
    const { context, page } = await open({ viewport: DESKTOP, ...options })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, person, path)
    return { context, page, faults }
  }

  const requestId = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
  const answerHeaders = {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': 'X-Request-Id, X-Should-Retry',
    'content-type': 'application/json; charset=UTF-8',
    'x-request-id': requestId,
  }
  /** As the API answers an exception. That a repetition may be of use is left out: it would only take time. */
  const fail = (route: Route): Promise<void> =>
    route.fulfill({
      status: 500,
      headers: { ...answerHeaders, 'x-should-retry': 'false' },
      json: { error: 'Internal error' },
    })
  /** As the API answers a token without a scope. */
  const deny = (route: Route): Promise<void> =>
    route.fulfill({
      status: 403,
      headers: answerHeaders,
      json: { error: 'The token lacks the scope network:deployments:read' },
    })

  interface Screen {
    name: string
    path: (home: Full) => string
    /** Reads of the API that this screen alone makes. */
    reads: RegExp
    /** How many parts of it fail when these do. */
    failures?: number
    ready: (page: Page) => Locator
    /** What is read once and for good is never old. */
    isReadOnce?: boolean
  }

  const cell = (name: string | RegExp) => (page: Page) => main(page).getByRole('cell', { name }).first()
  const screens: Screen[] = [
    {
      name: 'applications',
      path: ({ organization }) => organization,
      reads: /\/overview/,
      ready: cell('Service 250'),
    },
    {
      name: 'application',
      path: ({ path }) => path,
      reads: /\/deployments\?|\/activity(?:\?|$)|\/requests\/summary|\/applications\/[^/]+\/hostnames/,
      failures: 4,
      ready: (page) => main(page).getByText('API key CI of the shop created').first(),
    },
    {
      name: 'deployments',
      path: ({ path }) => `${path}/deployments?environment=production`,
      reads: /\/deployments\?/,
      ready: cell('Try another way'),
    },
    {
      name: 'deployment',
      path: ({ path, before }) => partPath(path, before, 'log'),
      reads: /\/deployments\/[^/?]+$/,
      ready: (page) => main(page).getByText('The log has no lines.'),
    },
    ...keyScreens,
    ...variableScreens,
  ]
  const readOf = {
    log: /\/logs\?/,
    files: /\/files/,
    functions: /\/functions/,
    crons: /\/crons$/,
    hostnames: /\/deployments\/[^/]+\/hostnames/,
    images: /\/image-cache/,
    variables: /\/deployments\?.*from=/,
  }
  const contentOf: Record<(typeof parts)[number], (page: Page) => Locator> = {
    log: (page) => main(page).getByText('transforming module 1', { exact: true }),
    files: cell('assets/images/products/product-001.jpg'),
    functions: cell('api/checkout'),
    crons: cell('/api/nightly-report'),
    hostnames: cell(/^app-/),
    images: cell('/img/product-9.jpg'),
    variables: cell('SENTRY_DSN'),
  }
  for (const part of parts)
    screens.push({
      name: `deployment ${part}`,
      path: ({ path, live }) => partPath(path, live, part),
      reads: readOf[part],
      ready: contentOf[part],
      isReadOnce: part === 'log',
    })
  screens.push(...logScreens)

  /** Of the API: the console's own files have names like them. */
  const isReadOf =
    (reads: RegExp) =>
    ({ origin, pathname, search }: URL): boolean =>
      origin === platform.apiUrl && reads.test(pathname + search)

  /** Looks at a page again that one looked away from for some time. */
  async function seeAgain(page: Page): Promise<void> {
    await page.clock.fastForward(6_000)
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange', { bubbles: true })))
  }

  /** Presses each button of a name at once: what one of them brings may take another away. */
  const pressAll = (page: Page, name: string): Promise<void> =>
    main(page)
      .getByRole('button', { name })
      .evaluateAll((buttons) => buttons.forEach((button) => (button as HTMLElement).click()))

  test('what is there within 150 ms shows no skeleton, and what takes longer does', async () => {
    const { context, page } = await open({ viewport: DESKTOP })
    const { faults } = await watch(context, platform)
    await page.clock.install()
    await openSignedIn(page, platform, full.person, `${full.path}/deployments`)
    await cell('Try another way')(page).waitFor()
    const held = Promise.withResolvers<void>()
    await page.route(isReadOf(/status=QUEUED/), async (route) => {
      await held.promise
      await route.continue()
    })
    await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1_000))
    await go(page, `${full.path}/deployments?status=QUEUED`)
    const bar = skeletons(page).first()
    await bar.waitFor({ state: 'attached' })
    // What a component does once it is drawn begins with the next frame.
    await page.clock.runFor(120)
    expect(await bar.isVisible()).toBe(false)
    await page.clock.runFor(100)
    expect(await bar.isVisible()).toBe(true)
    held.resolve()
    await page.clock.resume()
    await cell('Try queued')(page).waitFor()
    expect(await bar.count()).toBe(0)
    expect(faults).toEqual([])
    await context.close()
  })

  test(
    'each screen says when it is loading, has failed or is denied, keeps what was there when a later read fails, and passes axe all along',
    async () => {
      const { context, page } = await open({ viewport: DESKTOP })
      const { faults } = await watch(context, platform)
      await page.clock.install()
      const flaws: string[] = []

      /** Goes through the states of what is read. leave: what brings the page to it. */
      async function goThrough(
        { name, reads, failures = 1, ready, isReadOnce }: Omit<Screen, 'path'>,
        leave: () => Promise<unknown>,
      ) {
        const expectFailures = async (title: string, sentence: string): Promise<void> => {
          const told = alerts(page).filter({ hasText: title })
          await expect.poll(() => told.count()).toBe(failures)
          for (const alert of await told.all()) {
            expect(await alert.innerText()).toContain(sentence)
            expect(await alert.innerText()).toContain(requestId)
            expect(await alert.getByRole('button', { name: 'Try again' }).count()).toBe(1)
          }
        }
        const held = Promise.withResolvers<void>()
        const isRead = isReadOf(reads)
        const hold = async (route: Route): Promise<void> => {
          await held.promise
          await fail(route)
        }
        await page.route(isRead, hold)
        await leave()
        await skeletons(page).first().waitFor()
        flaws.push(...(await look(page, `${name}, loading`)))
        held.resolve()
        await expectFailures('The platform failed', 'Internal error')
        expect(await skeletons(page).count()).toBe(0)
        flaws.push(...(await look(page, `${name}, failed`)))
        await page.unroute(isRead, hold)

        await page.route(isRead, deny)
        await pressAll(page, 'Try again')
        await expectFailures('You may not see or do this', 'The token lacks the scope network:deployments:read')
        flaws.push(...(await look(page, `${name}, denied`)))
        await page.unroute(isRead, deny)

        await pressAll(page, 'Try again')
        await ready(page).waitFor()
        await expect.poll(() => alerts(page).or(skeletons(page)).count()).toBe(0)
        if (isReadOnce) return

        await page.route(isRead, fail)
        await seeAgain(page)
        await expectFailures('Below is what was there before.', 'Internal error')
        expect(await ready(page).isVisible()).toBe(true)
        flaws.push(...(await look(page, `${name}, failed later`)))
        await page.unroute(isRead, fail)
        await pressAll(page, 'Try again')
        await expect.poll(() => alerts(page).count()).toBe(0)
      }

      const organizations = /\/organizations(?:\?|$)/
      const nobody = await platform.person()
      await goThrough({ name: 'first run', reads: organizations, ready: (page) => heading(page, 'Welcome') }, () =>
        openSignedIn(page, platform, nobody),
      )
      await context.clearCookies()
      await goThrough(
        { name: 'an organization', reads: organizations, ready: (page) => heading(page, 'No organization here') },
        () => openSignedIn(page, platform, full.person, '/no-such-organization'),
      )
      const path = `${full.path}/deployments?status=FAILED`
      await goThrough({ name: 'an application', reads: /\/applications\?/, ready: cell('Try failed') }, () =>
        go(page, path),
      )
      for (const screen of screens) await goThrough(screen, () => go(page, screen.path(full)))
      expect(flaws).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )

  /** Waits for all lines of the long log: each is 20 px high, and few are in the page. */
  async function readWhole(page: Page): Promise<void> {
    const log = page.getByRole('region', { name: 'Build log' })
    await expect.poll(() => log.evaluate(({ scrollHeight }) => scrollHeight)).toBe(LINES * 20)
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(2_000)
  }

  test(
    'each full screen passes axe in light and in dark, fits into a narrow window with large text, and keeps its accessibility tree',
    async () => {
      const { context, page, faults } = await openAs(full.person, full.organization)
      const flaws: string[] = []
      const shown: Pick<Screen, 'name' | 'path' | 'ready'>[] = [
        ...screens.filter(({ name }) => name !== 'deployment'),
        {
          name: 'no organization',
          path: () => '/no-such-organization',
          ready: (page) => heading(page, 'No organization here'),
        },
        { name: 'nothing', path: () => '/a/b/c/d/e/f', ready: (page) => heading(page, 'There is no such page') },
        {
          name: 'building',
          path: ({ path, building }) => partPath(path, building, 'log'),
          ready: (page) => main(page).getByText('No lines yet.'),
        },
        {
          name: 'failed',
          path: ({ path, failed }) => partPath(path, failed, 'log'),
          ready: (page) => main(page).getByText('The deployment failed'),
        },
        { name: 'new organization', path: () => '/?new', ready: (page) => heading(page, 'A new organization') },
        ...keyForms,
        ...variableForms,
      ]
      for (const { name, path, ready } of shown) {
        await go(page, path(full))
        await ready(page).waitFor()
        await expect.poll(() => skeletons(page).count()).toBe(0)
        await expect.poll(() => page.getByText('Catching up').count()).toBe(0)
        if (name === 'deployment log') await readWhole(page)
        await expect(settled(await page.locator('body').ariaSnapshot())).toMatchFileSnapshot(snapshotOf(name))
        flaws.push(...(await look(page, name, { isFull: true })))
      }
      expect(flaws).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )

  test(
    'each list without anything in it says what belongs there, and how it gets there',
    async () => {
      const empty = await newHome(platform)
      const bare = await newHome(platform, { application: 'Bare' })
      const { id } = await deployed(platform, bare, { variables: [] })
      const { id: waiting } = await deployed(platform, bare, { status: 'PENDING' })
      const lonely = await platform.person()
      const token = await lonely.token(everyScope)
      const { body: organization } = await platform.call(token, 'POST /organizations', { name: 'Lonely' })
      const { context, page, faults } = await openAs(lonely, `/${organization.slug}`)
      const flaws: string[] = []
      const see = async (name: string, what: Locator, way?: Locator): Promise<void> => {
        await what.waitFor()
        if (way) expect(await way.isVisible()).toBe(true)
        flaws.push(...(await look(page, `${name}, empty`)))
      }
      await see('applications', main(page).getByText('Your first application'), button(page, 'Create application'))
      await context.clearCookies()

      await openSignedIn(page, platform, bare.person, partPath(bare.path, id, 'log'))
      await see('deployment log', main(page).getByText('The log has no lines.'))
      for (const [part, sentence] of [
        ['files', 'It serves no files'],
        ['functions', 'It has no Functions'],
        ['crons', 'It has no cron jobs'],
        ['images', 'No image has been asked for yet.'],
        ['variables', 'It was deployed without variables.'],
      ] as const) {
        await go(page, partPath(bare.path, id, part))
        await see(`deployment ${part}`, main(page).getByText(sentence))
      }
      await go(page, partPath(bare.path, waiting, 'variables'))
      await see('deployment variables, not provisioned', main(page).getByText('It has not been provisioned'))
      await go(page, `${bare.path}/deployments?status=BUILDING`)
      await see(
        'deployments, filtered',
        main(page).getByText('No deployment fits these filters.'),
        main(page).getByRole('link', { name: 'All deployments' }),
      )
      await go(page, bare.path)
      await see('application, not visited', main(page).getByText('Nobody asked for anything in this span.'))
      await context.clearCookies()

      await openSignedIn(page, platform, empty.person, empty.path)
      await see(
        'application',
        main(page).getByText('Drop a folder or a zip archive here'),
        button(page, 'Use the sample'),
      )
      await go(page, `${empty.path}/deployments`)
      await see(
        'deployments',
        main(page).getByText('Nothing was deployed yet.'),
        main(page).getByRole('link', { name: 'Deploy something' }),
      )
      await go(page, `${empty.path}/logs`)
      await see('logs', main(page).getByText('Nobody has asked for anything yet.'))
      await go(page, `${empty.path}/logs?view=lines`)
      await see('logs lines', main(page).getByText('No Function has printed anything yet.'))
      await go(page, `${empty.path}/keys`)
      await see(
        'keys',
        main(page).getByText('No keys yet.'),
        main(page).getByRole('link', { name: 'Create an API key' }),
      )
      for (const { name, path, what, way } of variableEmpties) {
        await go(page, path(empty))
        await see(name, what(page), way(page))
      }
      expect(flaws).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )

  test(
    'an address that leads nowhere says what is wrong with it, and leads on',
    async () => {
      const other = await newHome(platform)
      const { id: others } = await deployed(platform, other)
      const token = await full.person.token(everyScope)
      const { body: gone } = await platform.call(token, 'POST /organizations', { name: 'Going' })
      const { body: application } = await platform.call(token, 'POST /applications', {
        name: 'Gone',
        organizationId: gone.id,
      })
      await removeApplication(platform, application.id)
      const { context, page, faults } = await openAs(full.person, '/%zz')
      const flaws: string[] = []
      /** What is told, and where the way on leads. */
      const see = async (title: string, words: string | RegExp, href: string | RegExp): Promise<void> => {
        await heading(page, title).waitFor()
        await main(page).getByText(words).first().waitFor()
        const links = await main(page)
          .getByRole('link')
          .evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''))
        expect(links.some((link) => (typeof href === 'string' ? link === href : href.test(link)))).toBe(true)
        flaws.push(...(await look(page, `${new URL(page.url()).pathname.slice(1).replaceAll(/[/%]/g, '_')}, nowhere`)))
      }
      await see('There is no such page', /names nothing in the console/, '/')
      await go(page, '/no-such-organization')
      await see('No organization here', 'no-such-organization', '/')
      await go(page, other.organization)
      await see('No organization here', other.organization.slice(1), '/')
      await go(page, `${full.organization}/no-such-application`)
      await see('No application here', 'no-such-application', full.organization)
      await go(page, `/${gone.slug}/${application.slug}`)
      await see('No application here', application.slug, `/${gone.slug}`)
      const list = `${full.path}/deployments`
      for (const id of [others, 'not-a-uuid', randomUUID()]) {
        await go(page, `${list}/${id}`)
        await see('No deployment here', id, list)
      }
      await go(page, `${list}/${full.live}/nonsense`)
      await see('Show the total before paying', 'is no part of a deployment', `${list}/${full.live}/files`)
      await go(page, '/a/b/c/d/e/f')
      await see('There is no such page', '/a/b/c/d/e/f', '/')
      await go(page, `${list}?environment=nonsense&status=x&from=1`)
      for (const member of ['environment=nonsense', 'status=x', 'from=1']) await main(page).getByText(member).waitFor()
      await see('Deployments', 'filters that are not understood', list)
      await go(page, `${full.path}?span=9y`)
      await see('Shop', 'span=9y is none of 1h, 24h, 7d', /\?span=24h$/)
      expect(flaws).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )

  test('each page without a session passes axe in light and in dark, fits into a narrow window with large text, and keeps its accessibility tree', async () => {
    const { context, page } = await open({ viewport: DESKTOP })
    const { faults } = await watch(context, platform)
    const flaws: string[] = []
    const see = async (name: string, path: string, title: string, breaks?: (url: URL) => boolean): Promise<void> => {
      const cut = (route: Route): Promise<void> => route.abort('connectionrefused')
      if (breaks) await page.route(breaks, cut)
      await page.goto(platform.consoleUrl + path)
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
      expect(await page.getByRole('button').count()).toBe(1)
      await expect(settled(await page.locator('body').ariaSnapshot())).toMatchFileSnapshot(snapshotOf(name))
      flaws.push(...(await look(page, name, { isFull: true })))
      if (breaks) await page.unroute(breaks, cut)
    }
    await see('signed out', '/?state=signed-out', 'You are signed out')
    await see('not begun', '/callback?code=x&state=y', 'This window did not begin a sign-in')
    await see('unreachable', '/', 'The platform does not answer', ({ origin }) => origin === platform.idpUrl)
    await see('not reached', '/', 'The console was not reached', ({ pathname }) => pathname === '/config.json')
    expect(flaws).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test('an application or deployment that is deleted while somebody looks at it is told to be gone', async () => {
    const home = await newHome(platform)
    const { id } = await deployed(platform, home)
    const { context, page } = await open({ viewport: DESKTOP })
    const { faults } = await watch(context, platform)
    await page.clock.install()
    await openSignedIn(page, platform, home.person, partPath(home.path, id, 'hostnames'))
    await main(page).getByRole('cell', { name: 'Answers' }).waitFor()
    await removeApplication(platform, home.owner.applicationId)
    await seeAgain(page)
    await heading(page, /^No (?:application|deployment) here$/).waitFor()
    expect(await look(page, 'gone')).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test(
    'an answer that cannot be shown leaves the rest of its page as it is, and is read again on demand',
    async () => {
      const { context, page, faults } = await openAs(full.person, full.organization)
      const answer = (route: Route): Promise<void> =>
        route.fulfill({ headers: answerHeaders, json: { items: null, pages: 7 } })
      const breakAndMend = async (
        path: string,
        reads: RegExp,
        count: number,
        mended: readonly Locator[],
      ): Promise<void> => {
        const isRead = isReadOf(reads)
        await page.route(isRead, answer)
        await go(page, path)
        const failures = alerts(page).filter({ hasText: 'Something in this part of the page failed' })
        await expect.poll(() => failures.count()).toBe(count)
        expect(await alerts(page).count()).toBe(count)
        expect(await alerts(page).getByText(requestId).count()).toBe(count)
        await page.unroute(isRead, answer)
        await pressAll(page, 'Try again')
        for (const content of mended) await content.waitFor()
        await expect.poll(() => alerts(page).count()).toBe(0)
      }
      await breakAndMend(full.path, /\/activity\?|\/requests\/summary/, 2, [
        main(page).getByText('API key CI of the shop created').first(),
        main(page).getByText('p95').first(),
      ])
      expect(await main(page).getByRole('link', { name: 'Try another way' }).count()).toBe(1)
      for (const part of parts.filter((part) => part !== 'log'))
        await breakAndMend(partPath(full.path, full.live, part), readOf[part], 1, [contentOf[part](page)])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )

  test('a limit that is reached is told with its number, where somebody would go beyond it', async () => {
    const home = await newHome(platform)
    await setQuota(platform.api, home.owner.organizationId, 'applications', 1)
    await setQuota(platform.api, home.owner.organizationId, 'deployments_per_day', 0)
    const { context, page, faults } = await openAs(home.person, home.organization)
    const flaws: string[] = []
    await button(page, 'New application').click()
    await page.getByLabel('Name of the application').fill('One too many')
    await button(page, 'Create application').click()
    const alert = alerts(page).filter({ hasText: 'A limit is reached' })
    await alert.waitFor()
    expect(await alert.innerText()).toContain('1 of 1 used')
    flaws.push(...(await look(page, 'applications, limit')))

    await go(page, home.path)
    await button(page, 'Use the sample').click()
    await button(page, 'Deploy').last().click()
    await alert.filter({ hasText: 'deployments_per_day' }).waitFor()
    flaws.push(...(await look(page, 'application, limit')))

    // What a month includes is answered with 402, and a day's count with 429.
    await setQuota(platform.api, home.owner.organizationId, 'deployments_per_day', 5)
    await setQuota(platform.api, home.owner.organizationId, 'build_minutes_per_month', 0)
    await button(page, 'Deploy').last().click()
    await alert.filter({ hasText: 'build minutes' }).waitFor()
    expect(flaws).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a member is told why the hostname of an application cannot be set by members', async () => {
    const home = await newHome(platform)
    const member = await platform.person()
    await platform.api.db.insert(members).values({
      id: randomUUID(),
      organizationId: home.owner.organizationId,
      userId: member.userId,
      role: 'MEMBER',
      joinedAt: new Date(),
    })
    const { context, page, faults } = await openAs(member, home.path)
    await button(page, 'Choose a hostname').click()
    const set = button(page, 'Set hostname')
    await expect.poll(() => set.getAttribute('aria-disabled')).toBe('true')
    const reason = 'Only owners and administrators of the organization may do this; you are a member.'
    expect(await set.getAttribute('title')).toBe(reason)
    expect(await main(page).getByText(reason).first().isVisible()).toBe(true)
    expect(await look(page, 'application, member')).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test.each([
    ['turns', 'no-preference'],
    ['stands still', 'reduce'],
  ] as const)('the ring of a deployment under way %s with prefers-reduced-motion: %s', async (what, reducedMotion) => {
    const { context, page, faults } = await openAs(full.person, partPath(full.path, full.building, 'log'), {
      reducedMotion,
    })
    await main(page).getByText('No lines yet.').waitFor()
    expect(await main(page).locator('.animate-turn').count()).toBeGreaterThan(0)
    const moving = await page.evaluate(() => document.getAnimations().length)
    expect(moving > 0).toBe(what === 'turns')
    expect(faults).toEqual([])
    await context.close()
  })

  test(
    'names, logs and failures of strangers are shown as text, run nothing, and keep their direction of writing to themselves',
    async () => {
      const markup = '<img src=x onerror=alert(1)>'
      /** Ends what isolates it, and turns around what comes after. */
      const turned = 'abc\u2069\u202edef'
      const home = await newHome(platform, { organization: `${markup} ${turned}`, application: `${markup} ${turned}` })
      await deployed(platform, home, { git: git(`Begin ${markup} ${turned}`), variables: [] })
      const { id } = await deployed(
        platform,
        home,
        { git: git(`${markup} ${turned}\n${markup}`, { branch: `feat/${markup}${turned}` }), variables: [] },
        { files: { [`${markup}/${turned}.html`]: 'x' } },
      )
      const failureReason = `${markup} \u001b[31mred ${turned}`
      const { id: failed } = await deployed(platform, home, {
        status: 'FAILED',
        git: git(`Failed ${markup}`),
        failureReason,
      })
      await addFunctionAt(platform, id, `${markup}/${turned}`)
      const link = (href: string, text: string): string => `\u001b]8;;${href}\u001b\\${text}\u001b]8;;\u001b\\`
      await addMessages(platform, id, [
        `one ${markup} ${turned}`,
        `\u001b]0;title\u0007two \u001b[31mred\u001b[0m \u001b[2J\u001b[H`,
        `three ${link('javascript:alert(1)', 'press me')} ${link('https://example.com/x', 'a link')}`,
        `four ${'<b>'.repeat(350_000)}`,
        'five',
      ])
      const { status } = await platform.call(home.owner.token, 'POST /api-keys', {
        name: `${markup} ${turned}`,
        applicationId: home.owner.applicationId,
      })
      expect(status).toBe(201)

      const { context, page, faults } = await openAs(home.person, home.path)
      const dialogs: string[] = []
      page.on('dialog', (dialog) => {
        dialogs.push(dialog.message())
        void dialog.dismiss()
      })
      const flaws: string[] = []
      const see = async (name: string, path: string, text: string): Promise<void> => {
        await go(page, path)
        await main(page).getByText(text).first().waitFor()
        flaws.push(...(await look(page, name)))
        expect(await main(page).locator('img').count()).toBe(0)
      }
      /** Whether words that stand beside a name are where they are written, and not turned around. */
      const isLeftToRight = (first: Locator, words: [string, string]): Promise<boolean> =>
        first.evaluate((element, [one, two]) => {
          const placeOf = (word: string): number => {
            const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
            for (let node = walker.nextNode(); node; node = walker.nextNode()) {
              const at = node.textContent?.lastIndexOf(word) ?? -1
              if (at < 0) continue
              const range = document.createRange()
              range.setStart(node, at)
              range.setEnd(node, at + word.length)
              return range.getBoundingClientRect().left
            }
            throw new Error(`No ${word} here`)
          }
          return placeOf(one) < placeOf(two)
        }, words)

      await see('hostile applications', home.organization, markup)
      await see('hostile application', home.path, 'created')
      const row = main(page).getByRole('listitem').filter({ hasText: 'API key' })
      expect(await isLeftToRight(row, ['API', 'created'])).toBe(true)
      expect(await isLeftToRight(row, ['created', 'a person'])).toBe(true)
      await see('hostile keys', `${home.path}/keys`, markup)
      await see('hostile deployments', `${home.path}/deployments`, `Failed ${markup}`)
      await see('hostile failure', partPath(home.path, failed, 'log'), 'The deployment failed')
      await see('hostile files', partPath(home.path, id, 'files'), `${markup}/`)
      await see('hostile functions', partPath(home.path, id, 'functions'), `${markup}/`)
      await see('hostile variables', partPath(home.path, id, 'variables'), 'which was active')
      const compared = main(page).getByText('Compared with')
      expect(await isLeftToRight(compared, ['which', 'before it'])).toBe(true)
      await see(
        'hostile part',
        `${partPath(home.path, id, 'log')}/${encodeURIComponent(`${markup}${turned}`)}`,
        'is no part',
      )
      expect(await isLeftToRight(main(page).getByText('is no part'), ['is no part', 'are above'])).toBe(true)
      await see('hostile address', `/${encodeURIComponent(turned)}`, 'There is no organization')
      expect(await isLeftToRight(main(page).getByText('There is no organization'), ['that', 'you may'])).toBe(true)

      await see('hostile log', partPath(home.path, id, 'log'), 'five')
      const log = main(page).getByRole('region', { name: 'Build log' })
      expect(await log.getByText(markup).count()).toBeGreaterThan(0)
      expect(await log.getByRole('link', { name: 'a link' }).getAttribute('href')).toBe('https://example.com/x')
      expect(await log.getByRole('link', { name: 'press me' }).count()).toBe(0)
      expect(await log.getByText('press me').count()).toBe(1)
      expect(await page.locator('[href^="javascript:" i]').count()).toBe(0)
      await button(page, /^Show whole/).click()
      await page.getByRole('dialog').getByText('<b><b>').first().waitFor()
      expect(await page.locator('b').count()).toBe(0)
      await page.keyboard.press('Escape')
      expect(flaws).toEqual([])
      expect(dialogs).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    },
    LONG_MS,
  )
})
