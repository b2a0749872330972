import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { env as processEnv, execPath } from 'node:process'
import { promisify } from 'node:util'
import { describeInChromium } from '@platform/testkit/chromium'
import type { Person, TestPlatform } from '@platform/testing/platform'
import { and, eq, isNull } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiKeys } from '../../../services/api/src/areas/credentials/api-keys/table.ts'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { setQuota } from '../../../services/api/src/areas/tenancy/products/quotas.ts'
import { exchange, newKey } from '../../../services/api/test/scenario.ts'
import { refreshFamilies } from '../../../services/idp/src/features/refresh/table.ts'
import { sessions } from '../../../services/idp/src/features/sessions/table.ts'
import { giveCredentials, newPlace, openSignedIn, type Place, startWithConsole, watch } from './console.ts'
import { areInHeap } from './heap.ts'
import { go } from './states-look.ts'

const DAY_MS = 86_400_000
/** More than the 15 minutes for which a sign-in is fresh. */
const LONG_MS = 16 * 60_000

const run = promisify(execFile)

const main = (page: Page) => page.getByRole('main')
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const dialog = (page: Page) => page.getByRole('dialog')
const secretOf = (page: Page) => page.locator('dd pre').nth(1)

describeInChromium('API keys in the console', (open) => {
  let platform: TestPlatform
  let clientId: string
  beforeAll(async () => {
    platform = await startWithConsole({ hasWorker: false })
    const config = await fetch(`${platform.consoleUrl}/config.json`)
    clientId = ((await config.json()) as { clientId: string }).clientId
  })
  afterAll(() => platform.close())

  /** A window of somebody who is signed in. */
  async function openAs(person: Person, path: string) {
    const { context, page } = await open({ viewport: { width: 1_280, height: 800 } })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, person, path)
    return { context, page, faults }
  }

  const isAuthorize = (url: URL): boolean => url.origin === platform.idpUrl && url.pathname === '/oauth2/authorize'
  const isToken = (url: URL): boolean => url.origin === platform.idpUrl && url.pathname === '/oauth2/token'
  const isCreation = (url: URL): boolean => url.origin === platform.apiUrl && url.pathname === '/api-keys'
  const isMembers = (url: URL): boolean => url.origin === platform.apiUrl && url.pathname.endsWith('/members')
  const isQuotas = (url: URL): boolean => url.origin === platform.apiUrl && url.pathname.endsWith('/quotas')

  /** Answers with more items than the API has: as one that is newer than the console would. */
  const addItems = (page: Page, is: (url: URL) => boolean, added: (items: object[]) => object[]) =>
    page.route(is, async (route) => {
      const response = await route.fetch()
      const body = (await response.json()) as { items: object[] }
      await route.fulfill({ response, json: { ...body, items: [...body.items, ...added(body.items)] } })
    })

  /** Waits until the heading of the page has the focus. */
  const seeAtHeading = (page: Page) =>
    expect
      .poll(() => page.evaluate(() => [document.activeElement?.tagName, document.activeElement?.textContent]))
      .toEqual(['H1', 'API keys'])

  /** Opens a page as somebody who proved who they are longer ago than managing keys takes. */
  async function openAsOld(person: Person, path: string) {
    const opened = await openAs(person, path)
    await platform.idp.db
      .update(sessions)
      .set({ authTime: new Date(Date.now() - LONG_MS) })
      .where(eq(sessions.userId, person.userId))
    await opened.page.reload()
    await opened.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    return opened
  }

  interface ListedKey {
    id: string
    name: string
    scopes: string[]
    expiresAt: string | null
  }

  async function keysOf({ owner }: Place): Promise<ListedKey[]> {
    const { body } = await platform.call(owner.token, `GET /api-keys?applicationId=${owner.applicationId}`)
    return body.items as ListedKey[]
  }

  async function fillIn(page: Page, name: string, preset: string, end?: string): Promise<void> {
    await page.getByLabel('Name', { exact: true }).fill(name)
    await button(page, preset).click()
    if (end !== undefined) await page.getByRole('radio', { name: end }).check()
  }

  /** What a form holds: name, what is checked, and the end. */
  const filledIn = async (page: Page) => [
    await page.getByLabel('Name', { exact: true }).inputValue(),
    await page
      .getByRole('checkbox', { checked: true })
      .evaluateAll((boxes) => boxes.map((box) => box.closest('label')?.title)),
    await page.getByRole('radio', { checked: true }).evaluate((radio) => radio.closest('label')?.innerText.trim()),
  ]

  /** Creates a key in a window that is new for it. */
  async function make(
    page: Page,
    place: Place,
    name: string,
    preset = 'Deploy from CI',
    end?: string,
  ): Promise<string> {
    await go(page, `${place.path}/keys?new`)
    await fillIn(page, name, preset, end)
    await button(page, 'Create key').click()
    await main(page)
      .getByRole('heading', { name: `${name} is created` })
      .waitFor()
    return secretOf(page).innerText()
  }

  /** Sends the person back from the provider with a refusal, the next time. */
  const refuseOnce = (page: Page) =>
    page.route(
      isAuthorize,
      (route) => {
        const { searchParams } = new URL(route.request().url())
        const back = new URL(searchParams.get('redirect_uri') ?? '')
        const state = searchParams.get('state') ?? ''
        back.search = new URLSearchParams({ error: 'access_denied', state, iss: platform.idpUrl }).toString()
        return route.fulfill({ status: 302, headers: { location: back.href } })
      },
      { times: 1 },
    )

  test('a key ends when the person chose that it ends: after 30, 60 or 90 days, after a year, or never (A §4, D6)', async () => {
    const place = await newPlace(platform)
    const { context, page, faults } = await openAs(place.owner.person, `${place.path}/keys`)
    const choices = { 'In 30 days': 30, 'In 60 days': 60, 'In 90 days': 90, 'In 1 year': 365, Never: null }
    for (const end of Object.keys(choices)) {
      await make(page, place, end, 'Call models', end)
      await button(page, 'I have saved it').click()
      await seeAtHeading(page)
    }
    const made = await keysOf(place)
    expect(made).toHaveLength(5)
    const now = Date.now()
    for (const [name, days] of Object.entries(choices)) {
      const { expiresAt } = made.find((key) => key.name === name) as ListedKey
      if (days === null) expect(expiresAt).toBeNull()
      else expect(Math.abs(Date.parse(expiresAt ?? '') - now - days * DAY_MS)).toBeLessThan(60_000)
    }
    const row = (name: RegExp) => main(page).getByRole('row', { name })
    await expect.poll(() => row(/^In 1 year/).innerText()).toMatch(/in 365 days\s+never\s+you/)
    expect(await row(/^Never/).innerText()).toMatch(/AI\s+never\s+never\s+you/)
    expect(faults).toEqual([])
    await context.close()
  })

  test('somebody whose sign-in is old proves who they are, finds the form as it was, presses again, and sees the secret once (A §4, D6)', async () => {
    const place = await newPlace(platform)
    const { person } = place.owner
    const { context, page, faults } = await openAsOld(person, `${place.path}/keys`)
    await main(page).getByRole('link', { name: 'Create an API key' }).click()
    await fillIn(page, 'Backups', 'Store files (S3)', 'In 1 year')
    // Held up on the way, to look at what the browser keeps meanwhile.
    await page.route(isAuthorize, (route) => route.abort('aborted'), { times: 1 })
    const [request] = await Promise.all([
      page.waitForEvent('requestfailed', (failed) => isAuthorize(new URL(failed.url()))),
      button(page, 'Create key').click(),
    ])
    expect(new URL(request.url()).searchParams.get('max_age')).toBe('900')
    const scopes = ['network:storage:read', 'network:storage:write', 'network:storage:delete']
    const kept = await page.evaluate(() => Object.entries(sessionStorage))
    expect(kept.map(([name]) => name).sort()).toEqual(['sign-in', 'waiting-form'])
    const { 'sign-in': underWay, 'waiting-form': form } = Object.fromEntries(kept) as Record<string, string>
    expect(JSON.parse(underWay ?? '')).toMatchObject({ path: `${place.path}/keys?new` })
    expect(JSON.parse(form ?? '')).toEqual({
      name: `new-api-key ${place.owner.applicationId}`,
      fields: { name: 'Backups', scopes, end: '365' },
    })

    await page.goto(request.url())
    // Reloaded while the console is not signed in yet: the form waits on, and nothing that could finish the sign-in.
    let tokenRequests = 0
    await page.route(isToken, () => void tokenRequests++, { times: 1 })
    await giveCredentials(page, person)
    await expect.poll(() => tokenRequests).toBe(1)
    expect(await page.evaluate(() => Object.keys(sessionStorage))).toEqual(['waiting-form'])
    await page.reload({ waitUntil: 'commit' })
    await main(page).getByText('nothing has been created yet').waitFor()
    expect(await filledIn(page)).toEqual(['Backups', scopes, 'In 1 year'])
    expect(page.url()).toBe(`${platform.consoleUrl}${place.path}/keys?new`)
    expect(await keysOf(place)).toEqual([])
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
    // The old sign-in ended with the page that held it.
    const { userId } = person
    const isOfConsole = and(eq(refreshFamilies.userId, userId), eq(refreshFamilies.clientId, clientId))
    await expect
      .poll(() => platform.idp.db.$count(refreshFamilies, and(isOfConsole, isNull(refreshFamilies.revokedAt))))
      .toBe(1)

    await button(page, 'Create key').click()
    const secret = await secretOf(page).innerText()
    const [key] = await keysOf(place)
    expect(key).toMatchObject({ name: 'Backups', scopes })
    expect(secret).toMatch(/^svc_secret_[\w-]{43}$/)
    expect(await areInHeap(page, [secret])).toEqual([true])

    // What is offered to copy works as it stands.
    const shown = await main(page).locator('details pre').allTextContents()
    const profile = shown.find((text) => text.startsWith('[profile'))
    const settings = Object.fromEntries(
      profile?.matchAll(/^(\w+) = (.+)$/gm).map(([, name, value]) => [name, value]) ?? [],
    )
    const listed = await run('curl', [
      '--silent',
      '--show-error',
      '--fail',
      '--aws-sigv4',
      `aws:amz:${settings['region']}:s3`,
      '--user',
      `${settings['aws_access_key_id']}:${settings['aws_secret_access_key']}`,
      `${settings['endpoint_url']}/`,
    ])
    expect(listed.stdout).toContain('<ListAllMyBucketsResult')
    const environment = shown.find((text) => text.startsWith('PLATFORM_API_URL=')) ?? ''
    const program = shown.find((text) => text.startsWith('import ')) ?? ''
    const env = Object.fromEntries(environment.split('\n').map((line) => line.split('=', 2)))
    const ran = await run(execPath, ['--input-type=module', '--eval', program], {
      cwd: import.meta.dirname,
      env: { ...processEnv, ...env },
    })
    expect(ran.stdout).toContain('items: []')

    const element = await secretOf(page).elementHandle()
    await button(page, 'I have saved it').click()
    await main(page).getByRole('row').filter({ hasText: 'Backups' }).waitFor()
    // Preact may hold elements that are on no page any more.
    expect(await element?.textContent()).toBe('')
    await element?.dispose()
    expect(await areInHeap(page, [secret])).toEqual([false])
    expect(await page.content()).not.toContain(secret)
    expect(page.url()).toBe(`${platform.consoleUrl}${place.path}/keys`)
    expect(
      await page.evaluate(() =>
        JSON.stringify([Object.entries(sessionStorage), Object.entries(localStorage), history.state]),
      ),
    ).not.toContain('svc_secret_')
    expect(faults).toEqual([])
    await context.close()
  })

  test('whoever leaves while a secret is shown is asked, by link, name, Back, sign-out and reload, and the secret stays until they agree', async () => {
    const place = await newPlace(platform)
    const { context, page, faults } = await openAs(place.owner.person, place.path)
    await page.getByRole('heading', { level: 1, name: /^App / }).waitFor()
    const asked: string[] = []
    page.on('dialog', (question) => {
      asked.push(question.type())
      void question.dismiss()
    })
    const secret = await make(page, place, 'CI')
    const ways: [string, () => Promise<unknown>][] = [
      ['a link', () => page.getByRole('link', { name: 'Deployments', exact: true }).click()],
      [
        'the list of pages',
        async () => {
          await page.keyboard.press('Control+k')
          await page.keyboard.type('overview')
          await page.keyboard.press('Enter')
        },
      ],
      ['Back', () => page.evaluate(() => history.back())],
      [
        'signing out',
        () =>
          button(page, 'Account')
            .click()
            .then(() => button(page, 'Sign out').click()),
      ],
    ]
    for (const [way, leave] of ways) {
      await leave()
      await dialog(page).getByText('Leave without the secret?').waitFor()
      expect([way, page.url()]).toEqual([way, `${platform.consoleUrl}${place.path}/keys?new`])
      await button(page, 'Stay').click()
      expect([way, await secretOf(page).innerText()]).toEqual([way, secret])
    }
    // The browser tells of the first question's end when the second one is open.
    await page.getByRole('link', { name: 'Deployments', exact: true }).click()
    await button(page, 'Stay').waitFor()
    await page.evaluate(async () => {
      const named = (tag: string, name: string) =>
        [...document.querySelectorAll<HTMLElement>(tag)].find((element) => element.textContent.trim() === name)
      const closed = new Promise((done) => document.querySelector('dialog')?.addEventListener('close', done))
      named('button', 'Stay')?.click()
      await Promise.resolve()
      named('a', 'Deployments')?.click()
      await closed
    })
    await button(page, 'Stay').click()
    // Without this the browser asks nobody.
    await page.reload({ timeout: 2_000 }).catch(() => {})
    expect(asked).toEqual(['beforeunload'])
    expect(await secretOf(page).innerText()).toBe(secret)

    // To another page, and to the list below the secret.
    await page.evaluate(() => history.back())
    await button(page, 'Leave').click()
    await page.getByRole('heading', { level: 1, name: /^App / }).waitFor()
    expect(page.url()).toBe(platform.consoleUrl + place.path)
    expect(await page.content()).not.toContain(secret)
    await go(page, `${place.path}/keys`)
    await main(page).getByRole('row').filter({ hasText: 'CI' }).waitFor()
    const second = await make(page, place, 'Second')
    await page.evaluate(() => history.back())
    await button(page, 'Leave').click()
    await expect.poll(() => page.url()).toBe(`${platform.consoleUrl}${place.path}/keys`)
    await main(page).getByRole('row').filter({ hasText: 'Second' }).waitFor()
    expect(await page.content()).not.toContain(second)
    await seeAtHeading(page)

    // Once it is saved, nothing asks.
    await make(page, place, 'Another')
    await button(page, 'I have saved it').click()
    await page.getByRole('link', { name: 'Deployments', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Deployments' }).waitFor()
    expect(await dialog(page).count()).toBe(0)
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Deployments' }).waitFor()
    expect(asked).toEqual(['beforeunload'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('whoever leaves while a key is being created is asked, by link, button, Back and reload, and sees the secret if they stay', async () => {
    const place = await newPlace(platform)
    const { context, page, faults } = await openAs(place.owner.person, place.path)
    const asked: string[] = []
    page.on('dialog', (question) => {
      asked.push(question.type())
      void question.dismiss()
    })
    await go(page, `${place.path}/keys?new`)
    await fillIn(page, 'CI', 'Deploy from CI')
    const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>()
    let creations = 0
    await page.route(isCreation, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      creations++
      await isLetGo
      await route.continue()
    })
    await button(page, 'Create key').evaluate((element: HTMLElement) => {
      element.click()
      element.click()
    })
    await button(page, 'Create key').and(page.getByTitle('Under way')).waitFor()
    const question = dialog(page).getByText('Leave while the key is being created?')
    const ways: [string, () => Promise<unknown>][] = [
      ['a link', () => page.getByRole('link', { name: 'Deployments', exact: true }).click()],
      ['the button that closes the form', () => button(page, 'Create none').click()],
      ['Back', () => page.evaluate(() => history.back())],
    ]
    for (const [n, [way, leave]] of ways.entries()) {
      await leave()
      await question.waitFor()
      expect([way, page.url()]).toEqual([way, `${platform.consoleUrl}${place.path}/keys?new`])
      // The last question is open still when the key is there.
      if (n < ways.length - 1) await button(page, 'Stay').click()
    }
    await page.reload({ timeout: 2_000 }).catch(() => {})
    expect(asked).toEqual(['beforeunload'])
    letGo()
    await main(page).getByRole('heading', { name: 'CI is created' }).waitFor()
    expect(await secretOf(page).innerText()).toMatch(/^svc_secret_/)
    expect(await dialog(page).count()).toBe(0)
    expect(creations).toBe(1)
    expect(faults).toEqual([])
    await context.close()
  })

  test('a member sees who may create and delete keys, and can do neither', async () => {
    const place = await newPlace(platform)
    const { organizationId } = place.owner
    await newKey(platform, place.owner, ['network:env_vars:read'])
    const [admin, member] = [await platform.person(), await platform.person()]
    const joined = { organizationId, joinedAt: new Date() }
    await platform.api.db.insert(members).values([
      { ...joined, id: randomUUID(), userId: admin.userId, role: 'ADMIN' },
      { ...joined, id: randomUUID(), userId: member.userId, role: 'MEMBER' },
    ])
    const { context, page, faults } = await openAs(member, place.path)
    await addItems(page, isMembers, ([first]) => [{ ...first, userId: randomUUID(), role: 'AUDITOR' }])
    await page.goto(`${platform.consoleUrl}${place.path}/keys?new`)
    const notice = main(page).getByRole('list').filter({ hasText: 'owner' })
    await notice.waitFor()
    const names = await notice.getByRole('listitem').allInnerTexts()
    expect(names).toHaveLength(2)
    expect(names.join('\n')).toMatch(/, owner$/m)
    expect(names.join('\n')).toMatch(/, administrator$/m)
    const create = button(page, 'New API key')
    const remove = main(page)
      .getByRole('row')
      .getByRole('button', { name: /^Delete/ })
    for (const each of [create, remove]) {
      expect(await each.getAttribute('aria-disabled')).toBe('true')
      expect(await each.getAttribute('title')).toMatch(/^Only owners and administrators/)
      await each.click({ force: true })
    }
    expect(
      await main(page)
        .getByRole('form')
        .or(page.getByLabel('Name', { exact: true }))
        .count(),
    ).toBe(0)
    expect(await dialog(page).count()).toBe(0)
    expect(await keysOf(place)).toHaveLength(1)
    expect(faults).toEqual([])
    await context.close()
  })

  test('a person who comes back with a refusal stays on a page with a button, which leads to the form as it was', async () => {
    const place = await newPlace(platform)
    const { context, page, faults } = await openAsOld(place.owner.person, `${place.path}/keys?new`)
    await fillIn(page, 'CI', 'Deploy from CI', 'In 30 days')
    await refuseOnce(page)
    let attempts = 0
    context.on('request', (request) => {
      if (request.isNavigationRequest() && isAuthorize(new URL(request.url()))) attempts++
    })
    await button(page, 'Create key').click()
    await page.getByRole('heading', { level: 1, name: 'The sign-in' }).waitFor()
    expect(await page.getByRole('button').count()).toBe(1)
    expect(attempts).toBe(1)
    await page.getByRole('button').click()
    await page.getByLabel('Name', { exact: true }).waitFor()
    expect(await filledIn(page)).toEqual([
      'CI',
      ['network:deployments:trigger', 'network:deployments:read'],
      'In 30 days',
    ])
    expect(attempts).toBe(2)

    // The session at the provider is as old as before: a second refusal is told, and leads there on demand alone.
    await button(page, 'Create key').click()
    await main(page).getByRole('alert').filter({ hasText: 'Sign in again' }).waitFor()
    expect(attempts).toBe(2)
    await button(page, 'Sign in again').click()
    await page.waitForURL((url) => url.origin === platform.idpUrl)
    await giveCredentials(page, place.owner.person)
    await main(page).getByText('nothing has been created yet').waitFor()
    await button(page, 'Create key').click()
    await main(page).getByRole('heading', { name: 'CI is created' }).waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test('a form that waits for a sign-in is gone once the person signs out in another window', async () => {
    const place = await newPlace(platform)
    const { person } = place.owner
    const { context, page, faults } = await openAsOld(person, `${place.path}/keys?new`)
    const other = await context.newPage()
    await other.goto(platform.consoleUrl + place.path)
    await button(other, 'Account').waitFor()
    await fillIn(page, 'CI', 'Deploy from CI')
    await refuseOnce(page)
    await button(page, 'Create key').click()
    await page.getByRole('heading', { level: 1, name: 'The sign-in' }).waitFor()
    await button(other, 'Account').click()
    await button(other, 'Sign out').click()
    await page.getByRole('heading', { level: 1, name: 'You are signed out' }).waitFor()
    await page.getByRole('button').click()
    await giveCredentials(page, person)
    await page.getByLabel('Name', { exact: true }).waitFor()
    expect(await filledIn(page)).toEqual(['', [], 'In 90 days'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a key in use is deleted once its name is typed and the sign-in is new, and works no more', async () => {
    const place = await newPlace(platform)
    const { owner } = place
    const used = await newKey(platform, owner, ['network:env_vars:read'])
    await platform.call(owner.token, 'POST /api-keys', {
      name: 'idle',
      applicationId: owner.applicationId,
    })
    const { context, page, faults } = await openAsOld(owner.person, `${place.path}/keys`)
    const row = (name: string) => main(page).getByRole('row').filter({ hasText: name })
    await expect.poll(() => row('test').innerText()).toMatch(/in 90 days\s+(?:today|yesterday)\s+you/)
    expect(await row('idle').innerText()).toMatch(/in 90 days\s+never\s+you/)
    await row('test').getByRole('button', { name: 'Delete' }).click()
    const confirm = button(page, 'Delete key')
    expect(await confirm.getAttribute('title')).toBe('Type the name of the key first')
    await page.getByLabel('Name of the key').fill('test')
    await confirm.click()
    await page.waitForURL((url) => url.origin === platform.idpUrl)
    await giveCredentials(page, owner.person)
    await dialog(page).getByText('nothing has been deleted yet').waitFor()
    expect(await page.getByLabel('Name of the key').inputValue()).toBe('test')
    expect(await keysOf(place)).toHaveLength(2)
    await confirm.click()
    await expect.poll(() => row('test').count()).toBe(0)
    await seeAtHeading(page)
    // The sign-in is a new one now, and what was never used needs no name.
    await row('idle').getByRole('button', { name: 'Delete' }).click()
    let deletions = 0
    page.on('request', (request) => {
      if (request.method() === 'DELETE') deletions++
    })
    await confirm.evaluate((element: HTMLElement) => {
      element.click()
      element.click()
    })
    await main(page).getByText('No keys yet.').waitFor()
    expect(deletions).toBe(1)
    const exchanged = await exchange(platform, used.id, used.secret)
    expect(exchanged.body).toMatchObject({ error_description: 'API key deleted' })
    expect(faults).toEqual([])
    await context.close()
  })

  test('a key in use whose name has spaces and characters that nobody can type is deleted by what can be typed of it', async () => {
    const place = await newPlace(platform)
    const { owner } = place
    const { id } = await newKey(platform, owner, ['network:env_vars:read'])
    const name = 'Backups  of\u00a0the\u200b \u202eshop\u202c'
    await platform.api.db.update(apiKeys).set({ name }).where(eq(apiKeys.id, id))
    const { context, page, faults } = await openAs(owner.person, `${place.path}/keys`)
    const row = main(page).getByRole('row').filter({ hasText: 'Backups' })
    await row.getByRole('button', { name: /^Copy the key id of Backups/ }).waitFor()
    await row.getByRole('button', { name: /^Delete/ }).click()
    const field = page.getByLabel('Name of the key')
    await field.fill('Backups of shop')
    expect(await button(page, 'Delete key').getAttribute('aria-disabled')).toBe('true')
    await field.fill('Backups of the shop')
    await button(page, 'Delete key').click()
    await main(page).getByText('No keys yet.').waitFor()
    expect(await keysOf(place)).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a key that was created by a request whose answer was lost is told, and is in the list to be deleted', async () => {
    const place = await newPlace(platform)
    const { context, page } = await openAs(place.owner.person, `${place.path}/keys?new`)
    let isLost = false
    await page.route(isCreation, async (route) => {
      if (isLost || route.request().method() !== 'POST') return route.continue()
      isLost = true
      await route.fetch()
      await route.abort('connectionreset')
    })
    await fillIn(page, 'CI', 'Deploy from CI')
    await button(page, 'Create key').click()
    await main(page).getByText('nobody has its secret').waitFor()
    await main(page).getByRole('row').filter({ hasText: 'CI' }).waitFor()
    expect(await keysOf(place)).toHaveLength(1)
    await context.close()
  })

  test('the page of an organization has its members, products and quotas, with roles, access, use and resets, and shows those of a newer API by their own names', async () => {
    const place = await newPlace(platform)
    const { organizationId } = place.owner
    const member = await platform.person()
    await platform.api.db
      .insert(members)
      .values({ id: randomUUID(), organizationId, userId: member.userId, role: 'MEMBER', joinedAt: new Date() })
    await setQuota(platform.api, organizationId, 'applications', 1)
    const home = `/${place.path.split('/')[1]}`
    const { context, page, faults } = await openAs(member, `${home}/~/organization`)
    const row = (name: string | RegExp) => main(page).getByRole('row', { name })
    await row(/Owner/).waitFor()
    expect(await row(/you/).innerText()).toContain('Member')
    await row(/^Applications/).waitFor()
    expect(await row(/^Applications/).innerText()).toMatch(/1 of 1, used up\s+never/)
    expect(await row(/^Deployments a day/).innerText()).toMatch(/0 of 50\s+in \d+ (?:minute|hour)s?/)
    expect(await row(/^Stored objects/).innerText()).toContain('0 B of 5 GiB')
    expect(await row(/^Storage/).innerText()).toContain('Granted to every organization')
    const variables = main(page).getByRole('link', { name: 'Variables of the organization' })
    expect(await variables.getAttribute('href')).toBe(`${home}/~/variables`)

    // A newer API has roles and quotas that the console has no words for.
    await addItems(page, isMembers, ([first]) => [
      { ...first, membershipId: randomUUID(), userId: randomUUID(), role: 'AUDITOR' },
    ])
    await addItems(page, isQuotas, () => [
      { name: 'queues', used: 3, limit: 7, windowEnd: null },
      { name: 'queue_bytes', used: null, limit: 12_345, windowEnd: null },
    ])
    await page.reload()
    await row(/AUDITOR/).waitFor()
    await row(/^queues/).waitFor()
    expect(await row(/^queues/).innerText()).toContain('3 of 7')
    await main(page).getByText('queue_bytes').waitFor()
    await main(page).getByText('12,345').waitFor()
    expect(faults).toEqual([])
    await context.close()
  })
})
