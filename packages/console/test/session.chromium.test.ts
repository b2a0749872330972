import { randomUUID } from 'node:crypto'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import { describeInChromium } from '@platform/testkit/chromium'
import { and, eq, isNull } from 'drizzle-orm'
import type { BrowserContext, Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { disableClient } from '../../../services/idp/src/features/access/disable-client.ts'
import { signOutEverywhere } from '../../../services/idp/src/features/access/end-access.ts'
import { setClientPolicy } from '../../../services/idp/src/features/clients/clients.ts'
import { clients } from '../../../services/idp/src/features/clients/table.ts'
import { refreshFamilies } from '../../../services/idp/src/features/refresh/table.ts'
import { giveCredentials, openSignedIn, startWithConsole, watch } from './console.ts'

/** Access tokens last 300 s. */
const TOKEN_MS = 300_000

describeInChromium('the session of the console', (open) => {
  let platform: TestPlatform
  let clientId: string
  beforeAll(async () => {
    platform = await startWithConsole()
    const config = await fetch(`${platform.consoleUrl}/config.json`)
    clientId = ((await config.json()) as { clientId: string }).clientId
  })
  afterAll(() => platform.close())

  /** A browser of somebody's own, and what goes wrong in it. */
  async function openConsole() {
    const { context, page } = await open()
    const seen = await watch(context, platform)
    return { context, page, seen }
  }

  interface Owner extends Person {
    organizationId: string
    /** The address of an organization that is the person's, and of its application. */
    organizationPath: string
    applicationPath: string
  }

  async function newOwner(): Promise<Owner> {
    const person = await platform.person()
    const token = await person.token(everyScope)
    const name = `Org ${randomUUID()}`
    const { body: organization } = await platform.call(token, 'POST /organizations', { name })
    await platform.call(token, 'POST /applications', { organizationId: organization.id, name: 'Shop' })
    const organizationPath = `/${organization.slug}`
    return { ...person, organizationId: organization.id, organizationPath, applicationPath: `${organizationPath}/shop` }
  }

  /** The families of refresh tokens that the console holds for a person, as the provider counts them. */
  const liveFamilies = ({ userId }: Person): Promise<number> =>
    platform.idp.db.$count(
      refreshFamilies,
      and(
        eq(refreshFamilies.userId, userId),
        eq(refreshFamilies.clientId, clientId),
        isNull(refreshFamilies.revokedAt),
      ),
    )

  /** Waits until somebody who is signed in sees a page of the console at this address. */
  async function seeScreen(page: Page, path: string): Promise<void> {
    await page.locator('#main h1').waitFor()
    expect(page.url()).toBe(platform.consoleUrl + path)
  }

  /** Waits for a page that says why nobody is signed in; returns its one button. */
  async function seeStop(page: Page, title: string) {
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    expect(await page.getByRole('button').count()).toBe(1)
    return page.getByRole('button')
  }

  const isAuthorize = (url: URL): boolean => url.origin === platform.idpUrl && url.pathname === '/oauth2/authorize'
  const isToken = (url: URL): boolean => url.origin === platform.idpUrl && url.pathname === '/oauth2/token'
  const isApi = (url: URL): boolean => url.origin === platform.apiUrl

  /** How often windows of a context were sent to the provider from here on, by the console. */
  function countAttempts(context: BrowserContext): { attempts: number } {
    const count = { attempts: 0 }
    context.on('request', (request) => {
      const isBegun = request.isNavigationRequest() && request.redirectedFrom() === null
      if (isBegun && isAuthorize(new URL(request.url()))) count.attempts++
    })
    return count
  }

  /**
   * Stops a page where it goes to the provider, as if the person had pressed Escape. Returns the address that it went to: a page whose
   * request is held could not be looked into.
   */
  async function stopOnTheWay(page: Page, go: () => Promise<unknown>): Promise<string> {
    await page.route(isAuthorize, (route) => route.abort('aborted'), { times: 1 })
    const [request] = await Promise.all([
      page.waitForEvent('requestfailed', (request) => isAuthorize(new URL(request.url()))),
      go(),
    ])
    return request.url()
  }

  /** Changes the sign-in that a page keeps while the person is away. */
  const changeKept = (page: Page, change: { path?: string; state?: string }): Promise<void> =>
    page.evaluate(({ path, state }) => {
      const kept = JSON.parse(sessionStorage.getItem('sign-in') ?? '')
      if (path !== undefined) kept.path = path
      if (state !== undefined) kept.begun.state = state
      sessionStorage.setItem('sign-in', JSON.stringify(kept))
    }, change)

  /** Holds the provider's answers with tokens, which it has given, until they are let go. */
  async function holdTokens(context: BrowserContext) {
    const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>()
    const held = { answers: 0, letGo }
    await context.route(isToken, async (route) => {
      const response = await route.fetch()
      held.answers++
      await isLetGo
      // The window may be gone by now.
      await route.fulfill({ response }).catch(() => {})
    })
    return held
  }

  /** Goes from an organization to its application, and lets nothing reach the API there before what happens meanwhile. */
  async function goToApplication(
    page: Page,
    { applicationPath }: Owner,
    meanwhile: () => Promise<void>,
  ): Promise<void> {
    const link = page.getByRole('link', { name: 'Shop', exact: true })
    await link.waitFor()
    const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>()
    await page.route(isApi, async (route) => {
      await isLetGo
      await route.continue()
    })
    await link.click()
    await page.waitForURL(platform.consoleUrl + applicationPath)
    await meanwhile()
    letGo()
  }

  /** What a page's origin keeps in the browser. */
  const keptIn = (page: Page) =>
    page.evaluate(async () => ({
      local: Object.fromEntries(Object.entries(localStorage)) as Record<string, string>,
      session: Object.fromEntries(Object.entries(sessionStorage)) as Record<string, string>,
      cookie: document.cookie,
      databases: await indexedDB.databases(),
      caches: await caches.keys(),
      workers: (await navigator.serviceWorker.getRegistrations()).length,
      name: window.name,
      state: history.state as unknown,
    }))

  const nothing = { session: {}, cookie: '', databases: [], caches: [], workers: 0, name: '', state: null }

  test('a browser keeps no token and no cookie of the console, and while the person is away the sign-in alone', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    const tokens: string[] = []
    const cookies: Promise<string | null>[] = []
    context.on('response', (response) => {
      const url = new URL(response.url())
      if (url.origin === platform.consoleUrl) cookies.push(response.headerValue('set-cookie'))
    })
    await page.route(isToken, async (route) => {
      const response = await route.fetch()
      const body = (await response.json()) as Record<string, string>
      tokens.push(...['access_token', 'refresh_token', 'id_token'].map((name) => body[name] ?? ''))
      await route.fulfill({ response })
    })
    await openSignedIn(page, platform, ana, ana.applicationPath)
    await seeScreen(page, ana.applicationPath)
    const local = { 'last-organization': ana.organizationPath.slice(1) }
    await expect.poll(() => keptIn(page)).toEqual({ ...nothing, local })
    expect(tokens.filter((token) => token.length > 50)).toHaveLength(3)
    const everything = JSON.stringify([await context.storageState({ indexedDB: true }), page.url()])
    for (const token of tokens) expect(everything).not.toContain(token)
    expect(cookies.length).toBeGreaterThan(2)
    expect((await Promise.all(cookies)).filter((cookie) => cookie !== null)).toEqual([])
    await stopOnTheWay(page, () => page.reload())
    const kept = await keptIn(page)
    expect(kept).toEqual({ ...nothing, local, session: { 'sign-in': expect.any(String) as string } })
    const { begun, path } = JSON.parse(kept.session['sign-in'] ?? '') as { begun: object; path: string }
    expect(path).toBe(ana.applicationPath)
    expect(Object.keys(begun).sort()).toEqual([
      'baseUrl',
      'clientId',
      'issuer',
      'redirectUri',
      'state',
      'url',
      'verifier',
    ])
    expect(seen.faults).toEqual([])
  })

  test('a reload comes back to the same address without a click, to one family of refresh tokens and no further entry of the history', async () => {
    const ana = await newOwner()
    const { page, seen } = await openConsole()
    const address = `${ana.applicationPath}?range=7d&x=%2F#requests`
    await openSignedIn(page, platform, ana, address)
    await seeScreen(page, address)
    expect(await liveFamilies(ana)).toBe(1)
    const entries = await page.evaluate(() => history.length)
    for (const _ of [1, 2]) {
      await page.reload()
      await seeScreen(page, address)
    }
    await expect.poll(() => liveFamilies(ana)).toBe(1)
    expect(await page.evaluate(() => history.length)).toBe(entries)
    expect(seen.faults).toEqual([])
  })

  test('three reloads, each before the page stands, end signed in at the same address', async () => {
    const ana = await newOwner()
    const { page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.applicationPath)
    await seeScreen(page, ana.applicationPath)
    const isConfig = (url: URL): boolean => url.origin === platform.consoleUrl && url.pathname === '/config.json'
    const isMetadata = (url: URL): boolean => url.origin === platform.idpUrl && url.pathname.startsWith('/.well-known/')
    const unanswered: string[] = []
    for (const is of [isConfig, isMetadata, isToken]) {
      await page.route(is, (route) => void unanswered.push(route.request().url()), { times: 1 })
      await page.reload({ waitUntil: 'commit' })
      await expect.poll(() => unanswered.filter((url) => is(new URL(url)))).toHaveLength(1)
    }
    await page.reload({ waitUntil: 'commit' })
    await seeScreen(page, ana.applicationPath)
    await expect.poll(() => liveFamilies(ana)).toBe(1)
    expect(seen.faults).toEqual([])
  })

  test('closing one of three windows that renew their tokens leaves the other two signed in', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.organizationPath)
    const [second, closed] = [await context.newPage(), await context.newPage()]
    for (const other of [second, closed]) await other.goto(platform.consoleUrl + ana.organizationPath)
    const link = (of: Page) => of.getByRole('link', { name: 'Shop', exact: true })
    for (const each of [page, second, closed]) await link(each).waitFor()
    expect(await liveFamilies(ana)).toBe(3)
    platform.clock.advance(TOKEN_MS + 1_000)
    const held = await holdTokens(context)
    for (const each of [page, second, closed]) await link(each).click()
    await expect.poll(() => held.answers).toBe(3)
    await closed.close({ runBeforeUnload: true })
    await expect.poll(() => liveFamilies(ana)).toBe(2)
    held.letGo()
    for (const other of [page, second]) {
      await seeScreen(other, ana.applicationPath)
      await other.getByRole('link', { name: 'Deployments', exact: true }).click()
      await other.getByRole('heading', { name: '0 deployments', exact: true }).waitFor()
    }
    expect(await liveFamilies(ana)).toBe(2)
    expect(seen.faults).toEqual([])
  })

  test('a window and its duplicate, which has a copy of what it kept, both sign in and go on', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    const url = await stopOnTheWay(page, () => page.goto(platform.consoleUrl + ana.organizationPath))
    const [copy] = await Promise.all([context.waitForEvent('page'), page.evaluate((url) => void window.open(url), url)])
    await page.goto(url)
    for (const each of [copy, page]) {
      await giveCredentials(each, ana)
      await seeScreen(each, ana.organizationPath)
    }
    expect(await liveFamilies(ana)).toBe(2)
    platform.clock.advance(TOKEN_MS + 1_000)
    for (const each of [copy, page]) {
      await each.getByRole('link', { name: 'Shop', exact: true }).click()
      await seeScreen(each, ana.applicationPath)
    }
    expect(seen.faults).toEqual([])
  })

  test('a session that was ended elsewhere ends on a page that says so, and signing in again leads back to the screen', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.organizationPath)
    await seeScreen(page, ana.organizationPath)
    const count = countAttempts(context)
    await goToApplication(page, ana, async () => {
      await signOutEverywhere(platform.idp, ana.userId)
      platform.clock.advance(TOKEN_MS + 1_000)
    })
    const button = await seeStop(page, 'Your session has ended')
    expect(count.attempts).toBe(0)
    await button.click()
    await giveCredentials(page, ana)
    await seeScreen(page, ana.applicationPath)
    expect(count.attempts).toBe(1)
    expect(seen.faults).toEqual([])
  })

  test('a console that was taken away at the provider ends on a page that says so, and returns to the screen when it is back', async () => {
    const ana = await newOwner()
    const { page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.organizationPath)
    await seeScreen(page, ana.organizationPath)
    try {
      await goToApplication(page, ana, async () => {
        await disableClient(platform.idp, clientId)
        platform.clock.advance(TOKEN_MS + 1_000)
      })
      await seeStop(page, 'Your session has ended')
    } finally {
      await platform.idp.db.update(clients).set({ disabledAt: null }).where(eq(clients.id, clientId))
    }
    await page.getByRole('button').click()
    await seeScreen(page, ana.applicationPath)
    expect(seen.faults).toEqual([])
  })

  test('a person whom the console does not admit any more is told so, then told why by the provider, and comes back when admitted', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.organizationPath)
    await seeScreen(page, ana.organizationPath)
    const count = countAttempts(context)
    try {
      await goToApplication(page, ana, async () => {
        await setClientPolicy(platform.idp, { clientId, policy: { userIds: [randomUUID()] } })
        platform.clock.advance(TOKEN_MS + 1_000)
      })
      await (await seeStop(page, 'Your session has ended')).click()
      await seeStop(page, 'The sign-in was refused')
      expect(await page.getByRole('main').innerText()).toContain('does not permit this user')
      expect(new URL(page.url()).pathname).toBe(ana.applicationPath)
      expect(count.attempts).toBe(1)
    } finally {
      await setClientPolicy(platform.idp, { clientId, policy: { userIds: [] } })
    }
    await page.getByRole('button').click()
    await seeScreen(page, ana.applicationPath)
    expect(count.attempts).toBe(2)
    expect(seen.faults).toEqual([])
  })

  test('a person who lost an organization is told that it is not there, shown a way on, and sees it again as a member', async () => {
    const ana = await newOwner()
    const { page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.applicationPath)
    await seeScreen(page, ana.applicationPath)
    const { db } = platform.api
    const [member] = await db.delete(members).where(eq(members.organizationId, ana.organizationId)).returning()
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'No organization here' }).waitFor()
    await page.getByRole('link', { name: 'To your organizations' }).click()
    await page.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor()
    if (member) await db.insert(members).values(member)
    await page.goBack()
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Shop' }).waitFor()
    await seeScreen(page, ana.applicationPath)
    expect(seen.faults).toEqual([])
  })

  test('an answer with another state than the one that was sent is not used', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana)
    const count = countAttempts(context)
    const url = await stopOnTheWay(page, () => page.reload())
    await changeKept(page, { state: 'another' })
    await page.goto(url)
    const button = await seeStop(page, 'The sign-in did not succeed')
    expect(count.attempts).toBe(2)
    await expect.poll(() => liveFamilies(ana)).toBe(0)
    await button.click()
    await seeScreen(page, '/')
    expect(count.attempts).toBe(3)
    expect(seen.faults).toEqual([])
  })

  test('somebody who comes back from a sign-in that the window did not begin is asked before another', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    const count = countAttempts(context)
    for (const query of ['code=abc&state=abc', 'error=access_denied&error_description=Owned']) {
      await page.goto(`${platform.consoleUrl}/callback?${query}`)
      await seeStop(page, 'This window did not begin a sign-in')
      expect(page.url()).toBe(`${platform.consoleUrl}/`)
      expect(await page.getByRole('main').innerText()).not.toContain('Owned')
    }
    expect(count.attempts).toBe(0)
    await page.getByRole('button').click()
    await giveCredentials(page, ana)
    await seeScreen(page, '/')
    expect(seen.faults).toEqual([])
  })

  test('a provider that does not answer ends on a page with a button, before and after the person was there', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    const count = countAttempts(context)
    const cut = (route: Route): Promise<void> => route.abort('connectionrefused')
    const isProvider = (url: URL): boolean => url.origin === platform.idpUrl
    await context.route(isProvider, cut)
    await page.goto(`${platform.consoleUrl}/any?thing`)
    const button = await seeStop(page, 'The platform does not answer')
    expect(count.attempts).toBe(0)
    await context.unroute(isProvider, cut)
    await context.route(isToken, cut)
    await button.click()
    await giveCredentials(page, ana)
    const again = await seeStop(page, 'The platform does not answer')
    expect(count.attempts).toBe(1)
    await context.unroute(isToken, cut)
    await again.click()
    await seeScreen(page, '/any?thing')
    expect(count.attempts).toBe(2)
    expect(seen.faults).toEqual([])
  })

  test('an API that refuses each token ends on a page with a button after one sign-in', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    const count = countAttempts(context)
    const refuse = (route: Route): Promise<void> =>
      route.request().headers()['authorization'] === undefined
        ? route.continue()
        : route.fulfill({
            status: 401,
            headers: { 'access-control-allow-origin': platform.consoleUrl },
            json: { message: 'Unauthorized' },
          })
    await context.route(isApi, refuse)
    await page.goto(platform.consoleUrl)
    await giveCredentials(page, ana)
    const button = await seeStop(page, 'The platform does not accept this sign-in')
    expect(count.attempts).toBe(1)
    await expect.poll(() => liveFamilies(ana)).toBe(0)
    await context.unroute(isApi, refuse)
    await button.click()
    await seeScreen(page, '/')
    expect(count.attempts).toBe(2)
    expect(seen.faults).toEqual([])
  })

  test('signing out signs out all windows, empties what they kept, and ends the session at the provider', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, ana.organizationPath)
    const other = await context.newPage()
    await other.goto(platform.consoleUrl + ana.applicationPath)
    await seeScreen(other, ana.applicationPath)
    for (const each of [page, other]) await each.evaluate(() => sessionStorage.setItem('form', 'half filled in'))
    await page.getByRole('button', { name: 'Account' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    for (const each of [page, other]) {
      await seeStop(each, 'You are signed out')
      expect(await keptIn(each)).toEqual({ ...nothing, local: {} })
    }
    await expect.poll(() => liveFamilies(ana)).toBe(0)
    await page.reload()
    await page.getByLabel('Password', { exact: true }).waitFor()
    await other.getByRole('button').click()
    await giveCredentials(other, ana)
    await seeScreen(other, ana.applicationPath)
    expect(seen.faults).toEqual([])
  })

  test('a window that is about to be signed in when another one signs out stays signed out', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana)
    const held = await holdTokens(context)
    const other = await context.newPage()
    await other.goto(platform.consoleUrl)
    await expect.poll(() => held.answers).toBe(1)
    await page.getByRole('button', { name: 'Account' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await seeStop(other, 'You are signed out')
    held.letGo()
    await expect.poll(() => liveFamilies(ana)).toBe(0)
    await seeStop(other, 'You are signed out')
    expect(seen.faults).toEqual([])
  })

  test('signing out while the provider does not answer says that its session goes on', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana)
    const isProvider = (url: URL): boolean => url.origin === platform.idpUrl
    const cut = (route: Route): Promise<void> => route.abort('connectionrefused')
    await context.route(isProvider, cut)
    await page.evaluate(() => {
      sessionStorage.setItem('form', 'half filled in')
      localStorage.setItem('last-organization', 'acme')
    })
    await page.getByRole('button', { name: 'Account' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await seeStop(page, 'You are signed out here, but not at the identity provider')
    expect(await keptIn(page)).toEqual({ ...nothing, local: {} })
    await context.unroute(isProvider, cut)
    await page.getByRole('button').click()
    await seeScreen(page, '/')
    expect(seen.faults).toEqual([])
  })

  test('a kept address that leads out of the console is not followed after the sign-in', async () => {
    const ana = await platform.person()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana)
    const hosts = new Set<string>()
    context.on('request', (request) => hosts.add(new URL(request.url()).host))
    for (const path of ['//evil.example', 'https://evil.example', '/\\evil.example', 'javascript:alert(1)']) {
      const url = await stopOnTheWay(page, () => page.goto(`${platform.consoleUrl}/some/where`))
      await changeKept(page, { path })
      await page.goto(url)
      await page.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor()
      expect(page.url()).toBe(`${platform.consoleUrl}/`)
    }
    const own = [platform.consoleUrl, platform.apiUrl, platform.idpUrl].map((url) => new URL(url).host)
    expect([...hosts].sort()).toEqual(own.sort())
    expect(seen.faults).toEqual([])
  })

  // Playwright's Chromium keeps no page for Back: the page is told that it was kept, by the two events of the browser.
  test('a page that the browser kept for Back signs in anew, at its address', async () => {
    const ana = await newOwner()
    const { context, page, seen } = await openConsole()
    await openSignedIn(page, platform, ana, `${ana.applicationPath}?range=7d`)
    await seeScreen(page, `${ana.applicationPath}?range=7d`)
    const count = countAttempts(context)
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
    await expect.poll(() => liveFamilies(ana)).toBe(0)
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
    await expect.poll(() => count.attempts).toBe(1)
    await seeScreen(page, `${ana.applicationPath}?range=7d`)
    await expect.poll(() => liveFamilies(ana)).toBe(1)
    expect(seen.faults).toEqual([])
  })
})
