import { randomUUID } from 'node:crypto'
import type { EnvironmentVariable } from '@platform/sdk'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import { everyScope, type TestPlatform } from '@platform/testing/platform'
import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { openDice } from '../../../services/api/test/dice.ts'
import { environments, type Layer, mergeLayers } from '../src/screens/variables/layers.ts'
import { openSignedIn, startWithConsole, watch } from './console.ts'
import { areInHeap } from './heap.ts'
import { deployed, newHome, type Home } from './states.ts'
import { go } from './states-look.ts'
import { createVariable } from './states-variables.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startWithConsole({ hasWorker: false })
})
afterAll(() => platform.close())

const paths = ({ owner: { organizationId, applicationId } }: Pick<Home, 'owner'>) => ({
  organization: `/organizations/${organizationId}/env-vars`,
  application: `/applications/${applicationId}/env-vars`,
})

const create = (home: Home, layer: Layer, key: string, value: string, sensitive = false): Promise<void> =>
  createVariable(platform, home.owner, { layer, key, value, sensitive })

const pull = async ({ owner }: Home, environment: string) =>
  (await platform.call(owner.token, `GET ${paths({ owner }).application}/pull?environment=${environment}`)).body as {
    items: { key: string; value: string; source: string }[]
    omittedSensitive: number
  }

/** What deployments get that is not sensitive, as `KEY=value (layer)`. */
const pulled = async (home: Home, environment = 'production'): Promise<string[]> =>
  (await pull(home, environment)).items.map(({ key, value, source }) => `${key}=${value} (${source})`)

test('the console lets the same variables win as a pull, for 50 drawn sets in both environments (A §4, D49)', async () => {
  const dice = openDice()
  const person = await platform.person()
  const token = await person.token(everyScope)
  const made = async (path: string, body: object): Promise<string> =>
    (await platform.call(token, `POST ${path}`, body)).body.id as string
  const layers: readonly Layer[] = ['application', 'production', 'preview']
  const keys = ['A', 'B', 'a', '_', 'A_1']
  /** Draws which of the names a layer has, and which of them are sensitive. */
  async function fill(home: Home, layer: Layer): Promise<void> {
    for (const key of keys)
      if (dice.fraction() < 0.5) await create(home, layer, key, `${layer} ${key}`, dice.fraction() < 0.4)
  }
  let hidden = 0
  for (let set = 0; set < 50;) {
    const organizationId = await made('/organizations', { name: `Drawn ${set}` })
    const home = (applicationId: string): Home => ({
      owner: { person, token, organizationId, applicationId },
      person,
      organization: '',
      path: '',
    })
    await fill(home(''), 'organization')
    for (let nth = 0; nth < 10; nth++, set++) {
      const place = home(await made('/applications', { name: `Drawn ${set}`, organizationId }))
      await Promise.all(layers.map((layer) => fill(place, layer)))
      const list = async (path: string) =>
        (await platform.call(token, `GET ${path}`)).body.items as EnvironmentVariable[]
      const all = [...(await list(paths(place).organization)), ...(await list(paths(place).application))]
      for (const environment of environments) {
        const merged = mergeLayers(all, environment)
        const { items, omittedSensitive } = await pull(place, environment)
        const shown = merged.filter(({ winner }) => !winner.sensitive)
        const own = shown.map(({ key, winner }) => ({ key, value: winner.value, source: winner.source }))
        expect(own).toEqual(items.toSorted((one, other) => (one.key < other.key ? -1 : 1)))
        expect(merged.length - shown.length).toBe(omittedSensitive)
        hidden += merged.reduce((sum, each) => sum + each.hidden.length, 0)
      }
    }
  }
  expect(hidden).toBeGreaterThan(100)
})

const main = (page: Page) => page.getByRole('main')
const button = (page: Page, name: string | RegExp) => main(page).getByRole('button', { name, exact: true })
const link = (page: Page, name: string) => main(page).getByRole('link', { name, exact: true })
const area = (page: Page, name: string) => main(page).getByRole('textbox', { name, exact: true })
const rows = (page: Page, title: RegExp) =>
  main(page)
    .getByRole('region', { name: title })
    .getByRole('row')
    .filter({ has: page.getByRole('cell') })
const inTable = (page: Page) => rows(page, /^\d+ variables?/)

/** Types as a person does, or pastes: by no script of the page. */
async function typeInto(page: Page, name: string, text: string): Promise<void> {
  await area(page, name).focus()
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.insertText(text)
}

/** Holds requests to the variables, those of a method, until somebody lets them go. */
async function hold(page: Page, method: string): Promise<() => void> {
  const held = Promise.withResolvers<void>()
  await page.route(/\/env-vars(\/|$)/, async (route) => {
    if (route.request().method() === method) await held.promise
    await route.fallback()
  })
  return held.resolve
}

/** What the focus is on, by its words or, of a field, its kind. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const { activeElement: element } = document
    return (element?.tagName === 'BUTTON' || element?.tagName === 'A' ? element.textContent : element?.tagName) ?? ''
  })

/** A word that is nowhere else. */
const newSecret = (): string => `secret${randomUUID().replaceAll('-', '')}`

describeInChromium('variables in the console', (open) => {
  /** A window on the variables of an application, and what it sends to change them. */
  async function openAt(home: Home, query = '', options: Parameters<OpenPage>[0] & { person?: Home['person'] } = {}) {
    const { person = home.person, ...rest } = options
    const { context, page } = await open({ viewport: { width: 1_280, height: 900 }, ...rest })
    const { faults } = await watch(context, platform)
    const sent: string[] = []
    page.on('request', (request: Request) => {
      if (request.method() !== 'GET' && request.method() !== 'OPTIONS' && request.url().includes('/env-vars'))
        sent.push(`${request.method()} ${(request.postDataJSON() as { key?: string } | null)?.key ?? ''}`.trim())
    })
    await openSignedIn(page, platform, person, `${home.path}/variables${query}`)
    return { context, page, faults, sent }
  }

  test('the table has what wins in an environment, whence, and what hides the rest, and shows a value when somebody asks', async () => {
    const home = await newHome(platform)
    await create(home, 'organization', 'API_URL', 'https://organization.example')
    await create(home, 'application', 'API_URL', 'https://application.example')
    await create(home, 'preview', 'API_URL', 'https://preview.example')
    await create(home, 'organization', 'TOKEN', 'covered')
    await create(home, 'application', 'TOKEN', 'hidden', true)
    const { context, page, faults } = await openAt(home)
    await expect.poll(() => inTable(page).count()).toBe(4)
    const told = async () =>
      (await inTable(page).allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').replace(/ Edit.*/, ''))
    expect(await told()).toEqual([
      expect.stringMatching(/^API_URL ••••.* Application$/),
      expect.stringMatching(/Hidden by the application ••••.* Organization$/),
      expect.stringMatching(/^TOKEN Sensitive, never shown Application$/),
      expect.stringMatching(/Hidden by the application ••••.* Organization$/),
    ])
    expect(await main(page).innerText()).not.toContain('example')
    await button(page, 'Show the value of API_URL of the application').click()
    expect((await told())[0]).toContain('https://application.example')
    expect(await main(page).innerText()).not.toContain('organization.example')

    await link(page, 'Show preview').click()
    await expect.poll(() => inTable(page).count()).toBe(5)
    expect(page.url()).toContain('environment=preview')
    expect((await told()).slice(0, 3)).toEqual([
      expect.stringMatching(/^API_URL ••••.* Preview$/),
      expect.stringMatching(/Hidden by preview .* Application$/),
      expect.stringMatching(/Hidden by preview .* Organization$/),
    ])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a sensitive value is in the memory of the page until it was sent, and nowhere in it afterwards', async () => {
    const home = await newHome(platform)
    const { context, page, faults } = await openAt(home, '?new')
    const [secret, second] = [newSecret(), newSecret()]
    await page.getByLabel('Sensitive').check()
    await typeInto(page, 'Name', 'DB_PASSWORD')
    await typeInto(page, 'Value', secret)
    const field = await area(page, 'Value').elementHandle()
    const letGo = await hold(page, 'POST')
    const asked = page.waitForRequest((request) => request.method() === 'POST')
    await button(page, 'Save variable').click()
    await asked
    expect(await areInHeap(page, [secret])).toEqual([true])
    letGo()
    await main(page).getByText('Sensitive, never shown').waitFor()
    // Whoever still holds the element finds nothing in it.
    expect(await field?.evaluate((element) => (element as HTMLTextAreaElement).value)).toBe('')
    expect(page.url()).not.toContain('new')
    await page.getByRole('button', { name: 'As a command' }).click()
    await page
      .getByText(`printf %s "$VALUE" | platform env set --sensitive --app ${home.path.slice(1)} DB_PASSWORD`)
      .waitFor()

    await button(page, 'Edit DB_PASSWORD of the application').click()
    expect(await area(page, 'Value of DB_PASSWORD').inputValue()).toBe('')
    await typeInto(page, 'Value of DB_PASSWORD', second)
    await button(page, 'Save').click()
    await page.getByText('DB_PASSWORD is saved in the application').last().waitFor()
    await expect.poll(() => area(page, 'Value of DB_PASSWORD').count()).toBe(0)
    expect(await areInHeap(page, [secret, second])).toEqual([false, false])
    const stored = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, history.state]))
    expect([stored.includes(secret), stored.includes(second)]).toEqual([false, false])
    expect((await pull(home, 'production')).omittedSensitive).toBe(1)
    expect(faults).toEqual([])
    await context.close()
  })

  test('neither a readable value that was made sensitive nor a pasted .env that was closed is in the memory of the page', async () => {
    const home = await newHome(platform)
    const secret = newSecret()
    await create(home, 'application', 'TOKEN', secret)
    const { context, page, sent } = await openAt(home)
    await button(page, 'Edit TOKEN of the application').click()
    expect(await areInHeap(page, [secret])).toEqual([true])
    await page.getByLabel('Sensitive').check()
    await button(page, 'Save').click()
    await main(page).getByText('Sensitive, never shown').waitFor()

    const pasted = newSecret()
    await link(page, 'Paste a .env').click()
    await typeInto(page, 'Content of the .env', `A_LONG_NAME_OF_A_VARIABLE=${pasted}`)
    await main(page).getByText('1 new, 0 changed, 0 unchanged').waitFor()
    expect(await areInHeap(page, [pasted])).toEqual([true])
    await button(page, 'Close').click()
    await expect.poll(() => area(page, 'Content of the .env').count()).toBe(0)
    expect(await areInHeap(page, [secret, pasted])).toEqual([false, false])
    expect(sent).toEqual(['PATCH'])
    await context.close()
  })

  test('a pasted .env shows what would change before anything is sent, says after a refusal what was saved, and goes on from there', async () => {
    const home = await newHome(platform)
    await create(home, 'application', 'SAME', 'as before')
    await create(home, 'preview', 'CHANGED', 'old')
    const { context, page, faults, sent } = await openAt(home, '?environment=preview&paste')
    const [secret, unsent] = [newSecret(), newSecret()]
    const text = [
      'SAME="as before" # of the application',
      'CHANGED=1',
      `export SECRET='${secret}'`,
      '# there meanwhile',
      'TAKEN=mine',
      `LAST="two\nlines ${unsent}"`,
      'CHANGED=new',
    ].join('\r\n')
    await typeInto(page, 'Content of the .env', text)
    const changes = rows(page, /^Paste a .env/)
    const told = async () => (await changes.allInnerTexts()).map((each) => each.replace(/\s+/g, ' ').trim())
    await main(page).getByText('3 new, 1 changed, 1 unchanged').waitFor()
    expect(await told()).toEqual([
      expect.stringMatching(/^SAME Unchanged It comes from the application already/),
      expect.stringMatching(/^CHANGED 2 times in the text: the last one counts Changed/),
      expect.stringMatching(/^SECRET New/),
      expect.stringMatching(/^TAKEN New/),
      expect.stringMatching(/^LAST New/),
    ])
    await page.getByLabel('Sensitive: SECRET').check()
    expect(await areInHeap(page, [secret])).toEqual([true])
    expect(sent).toEqual([])

    // Somebody else is quicker by a moment, and what is read of that comes late.
    const [isTaken, reads] = [{ value: false }, Promise.withResolvers<void>()]
    await page.route(/\/env-vars$/, async (route) => {
      const { key } = (route.request().postDataJSON() ?? {}) as { key?: string }
      if (key === 'TAKEN' && !isTaken.value) {
        isTaken.value = true
        await create(home, 'preview', 'TAKEN', 'theirs')
      }
      if (isTaken.value && route.request().method() === 'GET') await reads.promise
      await route.continue()
    })
    await button(page, 'Save 4 variables').click()
    await main(page).getByText('A variable TAKEN exists in this layer').waitFor()
    const lists = await main(page).locator('dl dd').allInnerTexts()
    expect(lists.slice(-3)).toEqual(['CHANGED, SECRET', 'TAKEN', 'LAST'])
    expect(await areInHeap(page, [secret, unsent])).toEqual([false, true])

    await button(page, 'Go on with TAKEN').click()
    reads.resolve()
    await page.getByText('4 variables saved in preview').waitFor()
    expect(sent).toEqual(['PATCH', 'POST SECRET', 'POST TAKEN', 'PATCH', 'POST LAST'])
    expect(await pulled(home, 'preview')).toEqual([
      'CHANGED=new (environment)',
      `LAST=two\nlines ${unsent} (environment)`,
      'SAME=as before (application)',
      'TAKEN=mine (environment)',
    ])
    expect((await pull(home, 'preview')).omittedSensitive).toBe(1)
    expect(await area(page, 'Content of the .env').count()).toBe(0)
    expect(faults).toEqual([])
    await context.close()
  })

  test('an edit sends what the person changed alone: no line end of the browser, and nothing that makes a sensitive variable readable', async () => {
    const home = await newHome(platform)
    await create(home, 'application', 'LINES', 'one\r\ntwo')
    await create(home, 'application', 'TOKEN', 'readable')
    const { context, page, faults, sent } = await openAt(home)
    await button(page, 'Edit LINES of the application').click()
    await button(page, 'Save').click()
    await expect.poll(() => area(page, 'Value of LINES').count()).toBe(0)
    expect(sent).toEqual([])

    await button(page, 'Edit TOKEN of the application').click()
    const { application } = paths(home)
    const { body } = await platform.call(home.owner.token, `GET ${application}`)
    const { id } = (body.items as EnvironmentVariable[]).find(({ key }) => key === 'TOKEN') ?? {}
    await platform.call(home.owner.token, `PATCH ${application}/${id}`, { sensitive: true })
    await main(page).getByText('Sensitive, never shown').waitFor()
    await typeInto(page, 'Value of TOKEN', 'another')
    await button(page, 'Save').click()
    await page.getByText('TOKEN is saved in the application').waitFor()
    expect(await pulled(home)).toEqual(['LINES=one\r\ntwo (application)'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('the line of a saved variable makes a sensitive one readable as the page did, and uncovers no value', async () => {
    const home = await newHome(platform)
    await create(home, 'application', 'TOKEN', 'hidden', true)
    const { context, page, faults } = await openAt(home)
    await page.getByRole('button', { name: 'As a command' }).click()
    const save = async (value: string): Promise<void> => {
      await button(page, 'Edit TOKEN of the application').click()
      await typeInto(page, 'Value of TOKEN', value)
      if (await page.getByLabel('Sensitive', { exact: true }).isChecked())
        await page.getByLabel('Sensitive', { exact: true }).uncheck()
      await button(page, 'Save').click()
      await expect.poll(() => area(page, 'Value of TOKEN').count()).toBe(0)
    }
    await save('readable1')
    await page.getByText('"sensitive":false').waitFor()
    expect(await page.getByText('"sensitive":false').innerText()).toMatch(
      /-X PATCH [^]+'{"value":"<value>","sensitive":false}'/,
    )
    await save('readable2')
    await page.getByText(`printf %s "$VALUE" | platform env set --app ${home.path.slice(1)} TOKEN`).waitFor()
    expect(await page.locator('body').innerText()).not.toContain('readable')
    expect(await pulled(home)).toEqual(['TOKEN=readable2 (application)'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a pasted .env of 1,000 names is shown by 100 of them, and says that all are saved', async () => {
    const home = await newHome(platform)
    const { context, page, sent } = await openAt(home, '?paste')
    // Typing would be an event for each line, and pasting is one.
    await area(page, 'Content of the .env').evaluate(
      (field, text) => {
        ;(field as HTMLTextAreaElement).value = text
        field.dispatchEvent(new Event('input', { bubbles: true }))
      },
      Array.from({ length: 1_000 }, (_, nth) => `K${nth}=1`).join('\n'),
    )
    await button(page, 'Save 1,000 variables').waitFor()
    await main(page).getByText('1 to 100 of 1,000 names. Saving includes those that are not shown.').waitFor()
    const changes = rows(page, /^Paste a .env/)
    expect(await changes.count()).toBe(100)
    expect(await page.locator('*').count()).toBeLessThanOrEqual(2_000)
    await button(page, 'Names after').click()
    await page.getByLabel('Sensitive: K100', { exact: true }).check()
    expect(await changes.count()).toBe(100)
    await button(page, 'Names before').click()
    await page.getByLabel('Sensitive: K99', { exact: true }).waitFor()
    expect(sent).toEqual([])
    await context.close()
  })

  test('whoever edits a variable is told that somebody else deleted it, also after pressing Save', async () => {
    const home = await newHome(platform)
    for (const key of ['FIRST', 'SECOND']) await create(home, 'application', key, 'x')
    const { context, page, faults } = await openAt(home)
    const { application } = paths(home)
    const { body } = await platform.call(home.owner.token, `GET ${application}`)
    const remove = async (name: string): Promise<void> => {
      const { id } = (body.items as EnvironmentVariable[]).find(({ key }) => key === name) ?? {}
      expect((await platform.call(home.owner.token, `DELETE ${application}/${id}`)).status).toBe(204)
    }
    await button(page, 'Edit FIRST of the application').click()
    await typeInto(page, 'Value of FIRST', 'mine')
    await remove('FIRST')
    await page.getByText('FIRST was deleted meanwhile: what you typed is not saved').waitFor()
    expect(await focused(page)).toBe('Delete SECOND of the application')

    await button(page, 'Edit SECOND of the application').click()
    await typeInto(page, 'Value of SECOND', 'mine')
    const letGo = await hold(page, 'GET')
    await remove('SECOND')
    await button(page, 'Save').click()
    await main(page).getByRole('alert').waitFor()
    letGo()
    await page.getByText('SECOND was deleted meanwhile: what you typed is not saved').waitFor()
    expect(await focused(page)).toBe(' New variable')
    expect(faults).toEqual([])
    await context.close()
  })

  test('a save that is answered late is sent once, closes its form, and leaves the rest of the page as it was chosen since', async () => {
    const home = await newHome(platform)
    await create(home, 'application', 'THERE', 'x')
    const { context, page, faults, sent } = await openAt(home, '?new')
    await typeInto(page, 'Name', 'SLOW')
    const letGo = await hold(page, 'POST')
    for (let nth = 0; nth < 3; nth++) await area(page, 'Name').press('Enter')
    await page.getByLabel('Environment').selectOption('Preview')
    await page.getByLabel('Environment').focus()
    await page.waitForURL(/environment=preview/)
    letGo()
    await page.getByText('SLOW is saved in the application').waitFor()
    await expect.poll(() => area(page, 'Name').count()).toBe(0)
    expect(new URL(page.url()).search).toBe('?environment=preview')
    expect(await focused(page)).toBe('SELECT')
    expect(sent).toEqual(['POST SLOW'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a field tells what the platform would refuse of it, and nothing is sent', async () => {
    const home = await newHome(platform)
    const { context, page, sent } = await openAt(home, '?new')
    const problemOf = (name: string) =>
      area(page, name).evaluate((field) =>
        (field.getAttribute('aria-describedby') ?? '')
          .split(' ')
          .filter((id) => id.endsWith('problem'))
          .map((id) => document.getElementById(id)?.textContent)
          .join(),
      )
    await typeInto(page, 'Name', 'PLATFORM_URL')
    await typeInto(page, 'Value', `${'é'.repeat(32_768)}x`)
    await button(page, 'Save variable').click()
    await expect.poll(() => problemOf('Name')).toContain('PLATFORM_URL is reserved')
    expect(await problemOf('Value')).toBe('The value of PLATFORM_URL has 65537 bytes: expected 65536 at most')

    await go(page, `${home.path}/variables?paste`)
    for (const [text, problem] of [
      ['PLATFORM_URL=x', 'PLATFORM_URL is reserved'],
      [`BIG="${'é'.repeat(32_769)}"`, 'The value of BIG has 65538 bytes'],
      [`A=${'x'.repeat(1_000_000)}`, 'This text has 1.0 MB: expected 524 kB at most'],
      ['A=1\nhello', 'Line 2: expected KEY=value'],
    ] as const) {
      await typeInto(page, 'Content of the .env', text)
      await expect.poll(() => problemOf('Content of the .env')).toContain(problem)
      await button(page, 'Save 0 variables').click({ force: true })
    }
    expect(sent).toEqual([])
    await context.close()
  })

  test('a deleted variable comes back by Undo, a sensitive one goes only after a question, and the next deployment is one link away', async () => {
    const home = await newHome(platform)
    // Without a deployment the page of an application offers one by itself.
    await deployed(platform, home)
    await create(home, 'production', 'COLOUR', 'blue')
    await create(home, 'application', 'TOKEN', 'x', true)
    const { context, page, faults, sent } = await openAt(home)
    await button(page, 'Delete COLOUR of production').waitFor()
    const letGo = await hold(page, 'GET')
    await button(page, 'Delete COLOUR of production').click()
    // It goes before the list is read again.
    await expect.poll(() => button(page, 'Delete COLOUR of production').count()).toBe(0)
    expect(await focused(page)).toBe('Delete TOKEN of the application')
    letGo()
    await expect.poll(() => pulled(home)).toEqual([])
    await page.getByRole('button', { name: 'Undo' }).click()
    await button(page, 'Delete COLOUR of production').waitFor()
    await expect.poll(() => pulled(home)).toEqual(['COLOUR=blue (environment)'])

    await button(page, 'Delete TOKEN of the application').click()
    await page.getByRole('button', { name: 'Keep as it is' }).click()
    expect((await pull(home, 'production')).omittedSensitive).toBe(1)
    await button(page, 'Delete TOKEN of the application').click()
    await page.getByRole('button', { name: 'Delete variable' }).dblclick()
    await page.getByText('TOKEN is deleted from the application').waitFor()
    await expect.poll(() => button(page, 'Delete TOKEN of the application').count()).toBe(0)
    expect(await focused(page)).toBe('Delete COLOUR of production')
    expect(sent).toEqual(['DELETE', 'POST COLOUR', 'DELETE'])
    expect((await pull(home, 'production')).omittedSensitive).toBe(0)

    await main(page).getByText('The change takes effect with the next deployment.').waitFor()
    await link(page, 'Deploy').click()
    await button(page, 'Choose a folder').waitFor()
    await main(page)
      .getByRole('button', { name: /sample/i })
      .waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test('a refused deletion of a sensitive variable closes the question, says why, leads back to the button, and can be asked for again at once', async () => {
    const home = await newHome(platform)
    await create(home, 'application', 'TOKEN', 'x', true)
    const { context, page, faults, sent } = await openAt(home)
    await page.route(/\/env-vars\/[^/]+$/, (route) =>
      route.request().method() === 'DELETE' && sent.length === 1
        ? route.fulfill({
            status: 403,
            headers: { 'access-control-allow-origin': '*', 'content-type': 'application/json' },
            json: { error: 'The token lacks the scope network:env_vars:delete' },
          })
        : route.fallback(),
    )
    const remove = button(page, 'Delete TOKEN of the application')
    await remove.click()
    await button(page, 'Delete variable').click()
    await main(page).getByRole('alert').filter({ hasText: 'network:env_vars:delete' }).waitFor()
    expect(await page.getByRole('dialog').count()).toBe(0)
    expect(await focused(page)).toBe('Delete TOKEN of the application')
    await remove.click()
    await button(page, 'Delete variable').click()
    await page.getByText('TOKEN is deleted from the application').waitFor()
    expect(sent).toEqual(['DELETE', 'DELETE'])
    expect(faults).toEqual([])
    await context.close()
  })

  test('a member reads the variables of the organization and changes none of them, an administrator does', async () => {
    const home = await newHome(platform)
    await create(home, 'organization', 'SHARED', 'all')
    await create(home, 'application', 'OWN', 'one')
    const mia = await platform.person()
    const membership = { id: randomUUID(), organizationId: home.owner.organizationId, userId: mia.userId }
    await platform.api.db.insert(members).values({ ...membership, role: 'MEMBER', joinedAt: new Date() })
    const { context, page, faults, sent } = await openAt(home, '?new', { person: mia })
    const isRefused = async (name: string) => {
      await expect.poll(() => button(page, name).getAttribute('aria-disabled')).toBe('true')
      await button(page, name).click({ force: true })
      return (await button(page, name).getAttribute('title'))?.includes('you are a member')
    }
    expect(await isRefused('Edit SHARED of the organization')).toBe(true)
    expect(await isRefused('Delete SHARED of the organization')).toBe(true)
    await typeInto(page, 'Name', 'MINE')
    await typeInto(page, 'Value', 'm')
    await page.getByLabel('Layer').selectOption('Organization')
    expect(await isRefused('Save variable')).toBe(true)
    await area(page, 'Name').press('Enter')
    await page.getByLabel('Layer').selectOption('Application')
    await button(page, 'Save variable').click()
    await page.getByText('MINE is saved in the application').waitFor()
    await go(page, `${home.organization}/~/variables?new`)
    for (const name of ['New variable', 'Paste a .env', 'Edit SHARED of the organization', 'Save variable'])
      expect([name, await isRefused(name)]).toEqual([name, true])
    await typeInto(page, 'Name', 'OURS')
    await area(page, 'Name').press('Enter')
    await go(page, `${home.organization}/~/variables?paste`)
    await typeInto(page, 'Content of the .env', 'OURS=1')
    // What Enter in a box does by the standard, and not in Chromium.
    await page.getByLabel('Sensitive: OURS').evaluate((box) => (box as HTMLInputElement).form?.requestSubmit())
    expect(await isRefused('Save 1 variable')).toBe(true)
    await button(page, 'Show the value of SHARED of the organization').click()
    expect(await inTable(page).innerText()).toContain('all')
    expect(sent).toEqual(['POST MINE'])
    expect(faults).toEqual([])
    await context.close()

    const own = await openAt(home)
    await go(own.page, `${home.organization}/~/variables`)
    await button(own.page, 'Edit SHARED of the organization').click()
    await typeInto(own.page, 'Value of SHARED', 'everyone')
    await button(own.page, 'Save').click()
    await own.page.getByText('SHARED is saved in the organization').waitFor()
    await main(own.page).getByText('The change takes effect with the next deployment of each application.').waitFor()
    expect(await pulled(home)).toContain('SHARED=everyone (organization)')
    await own.context.close()
  })
})
