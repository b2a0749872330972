import { describeInChromium } from '@platform/testkit/chromium'
import type { TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openRequestLog } from '../../../services/api/src/areas/observe/request-logs/write.ts'
import { newKey, servedRequest } from '../../../services/api/test/scenario.ts'
import { linesOf, newTypist, type Typist } from './command-lines.ts'
import { openSignedIn, startWithConsole, watch } from './console.ts'
import { DESKTOP, go, look } from './states-look.ts'
import { addImages, addMessages, deployed, git, type Home, newHome } from './states.ts'
import { addLines } from './states-logs.ts'
import { createVariable } from './states-variables.ts'

const button = (page: Page, name: string | RegExp) => page.getByRole('main').getByRole('button', { name, exact: true })

describeInChromium('what the console says of a terminal', (open) => {
  let platform: TestPlatform
  let home: Home
  let typist: Typist
  let first: string
  let second: string
  beforeAll(async () => {
    platform = await startWithConsole()
    home = await newHome(platform)
    typist = await newTypist(platform, home.person)
    first = (await deployed(platform, home, { git: git('The first') })).id
    second = (await deployed(platform, home, { git: git('The second'), isCurrent: true })).id
    await addMessages(platform, second, ['compiling'])
    await createVariable(platform, home.owner, { layer: 'organization', key: 'GREETING', value: 'hello' })
    const log = openRequestLog(platform.api)
    log.write(servedRequest({ applicationId: home.owner.applicationId, path: '/checkout', startedAt: new Date() }))
    await log.close()
    const place = { applicationId: home.owner.applicationId, deploymentId: second }
    await addLines(platform, place, [{ level: 'ERROR', message: '-x marks the spot' }])
    await newKey(platform, home.owner, ['network:env_vars:read'])
  })
  afterAll(() => platform.close())

  async function openHome(path = home.path) {
    const { context, page } = await open({ viewport: DESKTOP })
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, home.person, path)
    return { context, page, faults }
  }

  test('each screen has a line that reads at a terminal what it shows', async () => {
    const { context, page, faults } = await openHome()
    const { path, organization } = home
    const one = `${path}/deployments/${second}`
    for (const [address, line, holds] of [
      ['/?new', /orgs ls$/, organization.slice(1)],
      [organization, /apps ls --org \S+$/, 'Shop'],
      [path, /\/requests\/summary/, 'series'],
      [`${path}/deployments`, /deployments --app \S+$/, 'The first'],
      [`${path}/deployments?environment=preview&status=ACTIVE`, /--env preview --status ACTIVE$/, 'no deployment'],
      [one, /logs \S+ --build$/, 'compiling'],
      [`${one}/files`, /inspect \S+$/, 'The second'],
      [`${one}/hostnames`, /\/hostnames/, 'items'],
      [`${one}/images`, /\/image-cache/, 'entries'],
      [`${one}/variables`, /\/deployments\/[\da-f-]{36}'? /, 'variables'],
      [`${path}/logs`, /logs --requests --app \S+$/, '/checkout'],
      [`${path}/logs?statusFamily=5xx`, /statusFamily=5xx/, '"total":0'],
      [`${path}/logs?view=lines&level=ERROR&search=-x`, /logs --app .*--search=-x$/, '-x marks the spot'],
      [`${path}/variables`, /env ls --app \S+ --env production$/, 'GREETING'],
      [`${path}/variables?environment=preview`, /env ls --app \S+ --env preview$/, 'GREETING'],
      [`${path}/keys`, /\/api-keys\?/, '"createdByUserId"'],
      [`${organization}/~/variables`, /--layer organization$/, 'GREETING'],
      [`${organization}/~/organization`, /\/quotas/, '"items"'],
    ] as const) {
      await go(page, address)
      await expect.poll(async () => (await linesOf(page)).shown).toMatch(line)
      const { shown = '' } = await linesOf(page)
      const { code, stdout, stderr } = await typist.type(shown)
      expect({ code, shown, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, shown, stderr: '' })
      expect((stdout + stderr).toLowerCase(), shown).toContain(holds.toLowerCase())
      // What the person is signed in with is nowhere.
      expect(shown + page.url() + (await page.title())).not.toMatch(/eyJ|Bearer (?!\$PLATFORM_TOKEN)/)
    }
    await go(page, one)
    await page.getByText('compiling').first().waitFor()
    expect(await look(page, 'as a command', { isFull: true })).toEqual([])
    expect(faults).toEqual([])
    await context.close()
  })

  test('the drawer has a line that does at a terminal what was done last', async () => {
    const { context, page, faults } = await openHome('/?new')
    // Closed by Escape, the drawer gives the focus back to what opened it.
    await linesOf(page)
    await page.getByRole('region', { name: 'As a command' }).getByRole('button', { name: 'Close' }).press('Escape')
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('As a command')
    expect(await page.getByRole('region', { name: 'As a command' }).count()).toBe(0)
    const did = async (pattern: RegExp): Promise<string> => {
      await expect.poll(async () => (await linesOf(page)).done).toMatch(pattern)
      return (await linesOf(page)).done as string
    }
    const type = async (line: string, options?: Parameters<Typist['type']>[1]): Promise<string> => {
      const { code, stdout, stderr } = await typist.type(line, options)
      expect({ line, code, stderr: code === 0 ? '' : stderr }).toEqual({ line, code: 0, stderr: '' })
      return stdout
    }
    // A name may be any text.
    const name = `-it's "Näme" $HOME`
    await page.getByLabel('Name of the organization').fill(name)
    await button(page, 'Create organization').click()
    await type(await did(/^platform orgs create -- /))
    const organizations = await platform.call(
      await home.person.token(['platform:organizations:read']),
      'GET /organizations',
    )
    expect(organizations.body.items.map((each: { name: string }) => each.name)).toEqual([
      name,
      name,
      expect.any(String),
    ])

    await page.getByLabel('Name of the application').fill('Other')
    await button(page, 'Create application').click()
    await type((await did(/^platform apps create --org \S+ Other$/)).replace('Other', 'Another'))
    await button(page, 'Use the sample').click()
    await button(page, 'Deploy').click()
    await page.getByText('Ready in').waitFor()
    const site = await typist.terminal.folder('site', {
      'index.html': '<!doctype html><title>Site</title><h1>Site</h1>',
    })
    await type(await did(/^platform deploy --app \S+\/other$/), { cwd: site })

    await go(page, home.path)
    await button(page, 'Choose a hostname').click()
    await page.getByLabel('Label').fill(`my-${first.slice(-8)}x`)
    await button(page, 'Set hostname').click()
    await type(await did(/^platform hostname set /))

    await go(page, `${home.path}/deployments`)
    await button(page, 'Roll back to The first').click()
    expect(await type(await did(new RegExp(`^platform promote ${first}$`)))).toContain('is the current deployment')
    await page.getByRole('button', { name: 'Undo' }).click()
    await type(await did(new RegExp(`^platform promote ${second}$`)))

    await addImages(platform, home, second)
    await go(page, `${home.path}/deployments/${second}/images`)
    await page.getByRole('button', { name: 'Purge /img/product-3.jpg', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Purge' }).click()
    const purge = await did(/^curl -fsS -X DELETE '\S+\/image-cache\?source=%2Fimg%2Fproduct-3\.jpg/)
    expect(JSON.parse(await type(purge.replace('product-3', 'product-4')))).toMatchObject({ purged: true })
    await page.getByRole('cell', { name: '/img/product-5.jpg', exact: true }).waitFor()
    expect(await page.getByRole('cell', { name: /product-3/ }).count()).toBe(0)

    const setVariable = async (key: string, value: string, isSensitive = false): Promise<void> => {
      await page.locator('#new-variable').click()
      await page.getByRole('textbox', { name: 'Name', exact: true }).fill(key)
      await page.getByRole('textbox', { name: 'Value', exact: true }).fill(value)
      if (isSensitive) await page.getByLabel('Sensitive').check()
      await button(page, 'Save variable').click()
    }
    await go(page, `${home.path}/variables`)
    const text = `-it's "two"\n$HOME lines`
    await setVariable('TEXT', text)
    await type(await did(/^printf %s "\$VALUE" \| platform env set --app \S+ TEXT$/), { value: text })
    await setVariable('SECRET', 'hunter2', true)
    const secret = await did(/^printf %s "\$VALUE" \| platform env set --sensitive --app \S+ SECRET$/)
    await type(secret, { value: 'hunter3' })
    expect(await type(`platform env ls --app ${home.path.slice(1)}`)).toMatch(/SECRET/)
    const pulled = await platform.call(home.owner.token, `GET /applications/${home.owner.applicationId}/env-vars/pull`)
    expect(pulled.body).toMatchObject({ omittedSensitive: 1 })
    expect(pulled.body.items).toContainEqual({ key: 'TEXT', value: text, source: 'application' })
    await go(page, `${home.organization}/~/variables`)
    await setVariable('SHARED', 'all')
    await type(await did(/^printf %s "\$VALUE" \| platform env set --app \S+ --layer organization SHARED$/), {
      value: 'all',
    })

    await go(page, `${home.path}/keys?new`)
    await page.getByLabel('Name', { exact: true }).fill("Ana's key")
    await button(page, 'Call models').click()
    await button(page, 'Create key').click()
    await page.getByRole('heading', { name: "Ana's key is created" }).waitFor()
    const made = JSON.parse(await type(await did(/^curl -fsS -X POST '?\S+\/api-keys'? /))) as Record<string, unknown>
    expect(made).toMatchObject({ name: "Ana's key", secret: expect.stringMatching(/^svc_secret_/) as string })
    await button(page, 'I have saved it').click()
    await page.getByRole('row').getByRole('button', { name: 'Delete' }).nth(1).click()
    await button(page, 'Delete key')
      .or(page.getByRole('dialog').getByRole('button', { name: 'Delete key' }))
      .click()
    const remove = await did(/^curl -fsS -X DELETE '?\S+\/api-keys\//)
    await type(remove.replace(/[0-9a-f-]{36}/, made['id'] as string))

    const pending = await Promise.all([1, 2].map(() => deployed(platform, home, { status: 'PENDING' })))
    await go(page, `${home.path}/deployments/${pending[0]?.id}`)
    await button(page, 'Cancel').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel deployment' }).click()
    const cancel = await did(new RegExp(`^platform cancel ${pending[0]?.id}$`))
    await type(cancel.replace(pending[0]?.id ?? '', pending[1]?.id ?? ''))
    expect(faults).toEqual([])
    await context.close()
  })
})
