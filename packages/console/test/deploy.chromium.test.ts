import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeInChromium } from '@platform/testkit/chromium'
import type { TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { zipOf } from '../../../services/api/test/zip.ts'
import { newPlace, openSignedIn, startWithConsole, watch } from './console.ts'

let platform: TestPlatform
let folder: string

beforeAll(async () => {
  platform = await startWithConsole()
  folder = await mkdtemp(join(tmpdir(), 'drop-'))
  const files = {
    'site/index.html': '<h1>It runs</h1>',
    'site/.gitignore': 'drafts\n',
    'site/drafts/secret-plan.md': 'buy the moon',
    'site/node_modules/left/index.js': 'module.exports = 1',
    'site/id_rsa': '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n',
    'site/<img src=x onerror=alert(1)>.txt': 'a hostile name',
  }
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    await writeFile(join(folder, path), content)
  }
  await writeFile(
    join(folder, 'site.zip'),
    zipOf([{ name: 'index.html', content: Buffer.from('<h1>From an archive</h1>') }]),
  )
  await mkdir(join(folder, 'empty'))
})

afterAll(async () => {
  await platform.close()
  await rm(folder, { recursive: true })
})

const send = (page: Page) =>
  page.getByRole('region', { name: /^Deploy / }).getByRole('button', { name: 'Deploy', exact: true })
const parts = /\/files\/deployments\//

describeInChromium('a deployment from the console', (open) => {
  /** The page of a new application, before anything was deployed. */
  async function openNew() {
    const place = await newPlace(platform)
    const { context, page } = await open()
    const { faults } = await watch(context, platform)
    await openSignedIn(page, platform, place.owner.person, place.path)
    const choose = async (kind: 'Choose a folder' | 'Choose an archive', name: string): Promise<void> => {
      const chooser = page.waitForEvent('filechooser')
      await page.getByRole('button', { name: kind }).click()
      await (await chooser).setFiles(join(folder, name))
    }
    return { place, context, page, faults, choose }
  }

  test('what ignore files name, installed packages and keys are left out, and named with the reason', async () => {
    const { context, page, faults, choose } = await openNew()
    await choose('Choose a folder', 'site')
    await send(page).waitFor()
    const left = await page.getByRole('listitem').allInnerTexts()
    for (const name of ['drafts', 'node_modules', 'id_rsa']) expect(left.join('\n')).toContain(name)
    expect(left.find((line) => line.startsWith('id_rsa'))).toContain('by its name')
    await send(page).click()
    await page.locator('dd').getByText('Live').waitFor()
    await page.getByRole('link', { name: 'Files' }).click()
    await page.getByRole('cell', { name: '<img src=x onerror=alert(1)>.txt' }).waitFor()
    for (const name of ['drafts', 'node_modules', 'id_rsa'])
      expect(await page.getByRole('cell', { name }).count()).toBe(0)
    expect(faults).toEqual([])
    await context.close()
  })

  test('an archive is sent as it is', async () => {
    const { context, page, faults, choose } = await openNew()
    await choose('Choose an archive', 'site.zip')
    await page.getByText('sent as it is').waitFor()
    await send(page).click()
    const address = page.getByRole('main').getByRole('link', { name: 'Open in a new tab' })
    await address.waitFor()
    const [tab] = await Promise.all([page.waitForEvent('popup'), address.click()])
    await tab.getByText('From an archive').waitFor()
    expect(faults).toEqual([])
    await context.close()
  })

  test('what is sent goes on while another page is shown, which tells when it is there', async () => {
    const { place, context, page, faults } = await openNew()
    let letGo = (): void => {}
    const held = new Promise<void>((resolve) => (letGo = resolve))
    await page.route(parts, async (route) => {
      await held
      await route.continue()
    })
    await page.getByRole('button', { name: 'Use the sample' }).click()
    await send(page).click()
    await page.getByRole('status').filter({ hasText: 'Sending Sample page' }).waitFor()
    await page.getByRole('link', { name: 'Deployments', exact: true }).click()
    await page.getByText('Sending Sample page, 0 B so far').waitFor()
    letGo()
    await page.getByRole('button', { name: 'Show its deployment' }).click()
    await page.locator('dd').getByText('Live').waitFor()
    expect(new URL(page.url()).pathname).toMatch(new RegExp(`^${place.path}/deployments/`))
    expect(faults).toEqual([])
    await context.close()
  })

  test('a part that is refused is told on whichever page is shown, and the same can be sent again', async () => {
    const { context, page } = await openNew()
    let isRefused = true
    await page.route(parts, (route) =>
      isRefused
        ? route.fulfill({
            status: 413,
            headers: { 'access-control-allow-origin': '*', 'content-type': 'application/json' },
            body: JSON.stringify({ error: 'The part is too large' }),
          })
        : route.continue(),
    )
    await page.getByRole('button', { name: 'Use the sample' }).click()
    await send(page).click()
    await page.getByRole('alert').filter({ hasText: 'The part is too large' }).waitFor()
    await page.getByRole('link', { name: 'Deployments', exact: true }).click()
    const told = page.getByRole('alert').filter({ hasText: 'Sample page was not sent: The part is too large' })
    await told.getByRole('link', { name: 'Show' }).click()
    isRefused = false
    await send(page).click()
    await page.locator('dd').getByText('Live').waitFor()
    expect(await told.count()).toBe(0)
    await context.close()
  })

  const stages: [when: string, held: RegExp][] = [
    ['before the deployment is created', /\/deployments$/],
    ['while its files are sent', parts],
  ]
  test.each(stages)('sending is stopped by a button %s, which cancels the deployment', async (_, held) => {
    const { place, context, page } = await openNew()
    const arrived = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    await page.route(held, async (route) => {
      if (!['POST', 'PUT'].includes(route.request().method())) return route.continue()
      arrived.resolve()
      await released.promise
      // The browser may have given it up meanwhile.
      await route.continue().catch(() => {})
    })
    await page.getByRole('button', { name: 'Use the sample' }).click()
    await send(page).click()
    await arrived.promise
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByRole('button', { name: 'Choose something else' }).click()
    await page.getByRole('button', { name: 'Choose a folder' }).waitFor()
    expect(await page.getByText('Sending').count()).toBe(0)
    released.resolve()
    const reasons = async (): Promise<string[]> => {
      const { body } = await platform.call(
        place.owner.token,
        `GET /deployments?applicationId=${place.owner.applicationId}`,
      )
      return (body.items as { failureReason: string }[]).map(({ failureReason }) => failureReason)
    }
    await expect.poll(reasons).toEqual(['Cancelled'])
    await context.close()
  })

  test('a folder that is over a limit of the plan is refused before anything is sent, with the sentence why', async () => {
    const { context, page } = await openNew()
    const asked: string[] = []
    page.on('request', (request) => request.method() === 'POST' && asked.push(new URL(request.url()).pathname))
    await page.route(/\/quotas$/, async (route) => {
      const answer = await route.fetch()
      const body = (await answer.json()) as { items: { name: string; limit: number }[] }
      for (const quota of body.items) if (quota.name === 'unpacked_bytes') quota.limit = 10
      await route.fulfill({ response: answer, json: body })
    })
    await page.getByRole('button', { name: 'Use the sample' }).click()
    await page.getByText('This cannot be deployed as it is').waitFor()
    await expect.poll(() => send(page).getAttribute('aria-disabled')).toBe('true')
    await send(page).click({ force: true })
    expect(asked.filter((path) => path === '/deployments')).toEqual([])
    await context.close()
  })
})
