import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import { freePort } from '@platform/testkit/free-port'
import type { Page } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LogPage } from './log-page/main.ts'

/** What the page's script puts into its window. */
declare const logPage: LogPage

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' blob:; require-trusted-types-for 'script'"
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

/** The page of log-page/ as files, on a port of its own, under the console's policy. */
async function servePage(folder: string): Promise<{ server: Server; address: string }> {
  await build({
    configFile: join(import.meta.dirname, '../vite.config.ts'),
    root: join(import.meta.dirname, 'log-page'),
    build: { outDir: folder, emptyOutDir: true },
  })
  const port = await freePort()
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const file = join(folder, pathname === '/' ? 'index.html' : pathname)
    const type = TYPES[extname(file)] ?? 'application/octet-stream'
    const headers = { 'content-type': type, 'content-security-policy': POLICY }
    pipeline(createReadStream(file), response.writeHead(200, headers)).catch(() => response.destroy())
  }).listen(port, 'localhost')
  await once(server, 'listening')
  return { server, address: `http://localhost:${port}` }
}

/** The numbers of the lines that are in view. */
const numbersInView = (page: Page): Promise<number[]> =>
  page.getByRole('region', { name: 'Build log', exact: true }).evaluate((region) => {
    const { top, bottom } = region.getBoundingClientRect()
    return [...region.querySelectorAll('a[href^="#L"]')]
      .filter((link) => link.getBoundingClientRect().bottom > top + 1 && link.getBoundingClientRect().top < bottom - 1)
      .map((link) => Number(link.textContent))
  })

/** Waits until a line is in view, and some of its neighbours. */
const seeLine = (page: Page, number: number) => expect.poll(() => numbersInView(page)).toContain(number)

const elementCount = (page: Page): Promise<number> => page.evaluate(() => document.querySelectorAll('*').length)

describeInChromium('the log', (open) => {
  let folder: string
  let site: Awaited<ReturnType<typeof servePage>>
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'log-page-'))
    site = await servePage(folder)
  })
  afterAll(async () => {
    site.server.close()
    await rm(folder, { recursive: true })
  })

  async function openLog(path: string, options: Parameters<OpenPage>[0] = {}): Promise<Page> {
    const { page } = await open({ viewport: { width: 1_280, height: 800 }, ...options })
    await page.goto(`${site.address}/${path}`)
    return page
  }

  const region = (page: Page) => page.getByRole('region', { name: 'Build log', exact: true })
  const field = (page: Page) => page.getByLabel('Find in the log')
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

  test('a log of 100,000 lines has few elements, wherever one scrolls, and breaks no rule of the policy', async () => {
    const page = await openLog('?lines=100000')
    await seeLine(page, 1)
    expect(await elementCount(page)).toBeLessThan(2_000)
    await region(page).focus()
    await page.keyboard.press('End')
    await seeLine(page, 100_000)
    expect(await elementCount(page)).toBeLessThan(2_000)
    for (const share of [0.1, 0.33, 0.5, 0.9]) {
      await region(page).evaluate((element, share) => (element.scrollTop = element.scrollHeight * share), share)
      await seeLine(page, Math.round(share * 100_000) + 2)
      expect(await elementCount(page)).toBeLessThan(2_000)
    }
    expect(await page.evaluate(() => logPage.violations)).toEqual([])
  })

  test('a log whose lines have a thousand colours and matches each has few elements', async () => {
    const page = await openLog('?lines=0', { viewport: { width: 2_560, height: 1_600 } })
    await page.evaluate(() => {
      const text = Array.from({ length: 1_000 }, (_, n) => `\u001b[3${n % 8}m${n % 10}ab`).join('')
      logPage.append(Array.from({ length: 1_000 }, () => text))
    })
    await seeLine(page, 1)
    await field(page).fill('ab')
    await page.locator('mark').first().waitFor()
    expect(await elementCount(page)).toBeLessThan(2_000)
  })

  test('finding goes through all lines and from one match to the next and the one before', async () => {
    const page = await openLog('?lines=100000')
    await field(page).fill('CANNOT resolve')
    await page.getByText('1 of 10', { exact: true }).waitFor()
    await seeLine(page, 10_000)
    await field(page).press('Enter')
    await seeLine(page, 20_000)
    await button(page, 'Previous').click()
    await button(page, 'Previous').click()
    await page.getByText('10 of 10', { exact: true }).waitFor()
    await seeLine(page, 100_000)
    expect(await page.locator('mark').allInnerTexts()).toEqual(['cannot resolve'])
    await field(page).fill('nothing like this')
    await page.getByText('No match', { exact: true }).waitFor()
    expect(await button(page, 'Next').getAttribute('title')).toBe('No line matches')
    await field(page).press('Escape')
    expect(await field(page).inputValue()).toBe('')
  })

  test('a match far to the right is brought into view, and so is the beginning of an error', async () => {
    const page = await openLog('?lines=9998')
    await page.evaluate(() => logPage.append([`${'x'.repeat(3_000)} needle ${'x'.repeat(20_000)}`, 'failed']))
    await field(page).fill('needle')
    const isInView = (text: string) =>
      region(page)
        .getByText(text, { exact: true })
        .evaluate((element) => {
          const { left, right } = element.getBoundingClientRect()
          return left >= 0 && right <= innerWidth
        })
    await expect.poll(() => isInView('needle')).toBe(true)
    expect(await region(page).evaluate((element) => element.scrollLeft)).toBeGreaterThan(10_000)
    // Its button stays in view, however long the line is.
    expect(await isInView('Show whole (23.0 kB)')).toBe(true)
    await button(page, 'Next error').click()
    await expect.poll(() => isInView('failed')).toBe(true)
    expect(await region(page).evaluate((element) => element.scrollLeft)).toBe(0)
  })

  test('the key of the browser for finding goes to the field of the log', async () => {
    const page = await openLog('?lines=1000')
    await region(page).focus()
    await page.keyboard.press('Control+f')
    expect(await field(page).evaluate((element) => element === document.activeElement)).toBe(true)
  })

  test('a log finds in lines that come after the search began', async () => {
    const page = await openLog('?lines=10&live=true')
    await field(page).fill('late')
    await page.getByText('No match', { exact: true }).waitFor()
    await page.evaluate(() => logPage.append(['late one', 'late two']))
    await page.getByText('2 lines', { exact: true }).waitFor()
    await button(page, 'Next').click()
    await page.getByText('1 of 2', { exact: true }).waitFor()
    expect(await page.locator('mark').allInnerTexts()).toEqual(['late', 'late'])
  })

  test('a live log follows 500 lines a second with at most one render a frame', async () => {
    const page = await openLog('?lines=1000&live=true')
    await seeLine(page, 1_000)
    const renders = await page.evaluate(async () => {
      logPage.rendersByFrame.clear()
      await logPage.stream(500, 2)
      return [...logPage.rendersByFrame.values()]
    })
    await seeLine(page, 2_000)
    expect(renders.length).toBeGreaterThan(5)
    expect(Math.max(...renders)).toBe(1)
    expect(await elementCount(page)).toBeLessThan(2_000)
  })

  test('scrolling while lines are found and come in renders at most once a frame', async () => {
    const page = await openLog('?lines=100000&live=true')
    await seeLine(page, 100_000)
    await field(page).fill('module')
    await page.evaluate(() => logPage.rendersByFrame.clear())
    const streamed = page.evaluate(() => logPage.stream(500, 1))
    await region(page).hover()
    for (let n = 0; n < 10; n++) await page.mouse.wheel(0, -300)
    await streamed
    expect(await page.evaluate(() => Math.max(...logPage.rendersByFrame.values()))).toBe(1)
  })

  test('scrolling up holds the place and counts new lines, and the pill follows them again', async () => {
    const page = await openLog('?lines=1000&live=true')
    await seeLine(page, 1_000)
    await region(page).hover()
    await page.mouse.wheel(0, -400)
    await button(page, 'To the end').waitFor()
    await expect.poll(() => numbersInView(page)).not.toContain(990)
    const held = await numbersInView(page)
    await page.evaluate(() => logPage.append(214))
    await button(page, '214 new').waitFor()
    expect(await numbersInView(page)).toEqual(held)
    expect(await button(page, 'Follow').getAttribute('aria-pressed')).toBe('true')
    await button(page, '214 new').click()
    await seeLine(page, 1_214)
    await page.evaluate(() => logPage.append(100))
    await seeLine(page, 1_314)
    expect(await button(page, '100 new').count()).toBe(0)
  })

  test('scrolling back to the end by hand ends the hold', async () => {
    const page = await openLog('?lines=1000&live=true')
    await seeLine(page, 1_000)
    await region(page).focus()
    await page.keyboard.press('Home')
    await seeLine(page, 1) // Chromium lets End go while it still moves upwards
    await button(page, 'To the end').waitFor()
    await page.keyboard.press('End')
    await button(page, 'To the end').waitFor({ state: 'detached' })
    await page.evaluate(() => logPage.append(500))
    await seeLine(page, 1_500)
    expect(await button(page, '500 new').count()).toBe(0)
  })

  test('a log that is not followed stays where it is when lines come', async () => {
    const page = await openLog('?lines=1000&live=true')
    await seeLine(page, 1_000)
    await button(page, 'Follow').click()
    await page.evaluate(() => logPage.append(30))
    await button(page, '30 new').waitFor()
    const stayed = await numbersInView(page)
    expect(stayed.at(-1)).toBe(1_000)
    await button(page, 'Follow').click()
    await seeLine(page, 1_030)
  })

  test('an address with the number of a line opens a log there, and another address moves it', async () => {
    const page = await openLog('?lines=100000#L77777')
    await seeLine(page, 77_777)
    expect(await page.locator('[data-marked]').innerText()).toContain('line 77777')
    await page.evaluate(() => (location.hash = '#L5'))
    await seeLine(page, 5)
    expect(await page.locator('[data-marked]').innerText()).toContain('line 5 ')
  })

  test('an address whose line is not there yet is gone to when the line comes', async () => {
    const page = await openLog('?lines=10#L300')
    await seeLine(page, 10)
    await page.evaluate(() => logPage.append(1_000))
    await seeLine(page, 300)
    expect(await numbersInView(page)).not.toContain(1)
  })

  test('the number of a line puts it into the address without a new entry of the history', async () => {
    const page = await openLog('?lines=100')
    const entries = await page.evaluate(() => history.length)
    await page.getByRole('link', { name: 'Line 7', exact: true }).click()
    expect(new URL(page.url()).hash).toBe('#L7')
    expect(await page.locator('[data-marked]').innerText()).toContain('line 7 ')
    expect(await page.evaluate(() => history.length)).toBe(entries)
  })

  test('the next error is gone to from one error to the next, and then to the first', async () => {
    const page = await openLog('?lines=30000')
    for (const number of [10_000, 20_000, 30_000, 10_000]) {
      await button(page, 'Next error').click()
      await expect.poll(() => page.locator('[data-marked] a').first().innerText()).toBe(String(number))
      await seeLine(page, number)
    }
    expect(await page.getByRole('status').innerText()).toBe('Error, line 10,000.')
  })

  test('a log without errors and a log without lines say why their buttons do nothing', async () => {
    const page = await openLog('?lines=0&live=true')
    await page.getByText('No lines yet.').waitFor()
    expect(await button(page, 'Next error').getAttribute('title')).toBe('No error so far')
    expect(await button(page, 'As text').getAttribute('title')).toBe('There are no lines to save')
    await page.evaluate(() => logPage.show(false))
    await page.getByText('The log has no lines.').waitFor()
    await page.evaluate(() => logPage.append(5))
    await seeLine(page, 5)
    expect(await button(page, 'Next error').getAttribute('title')).toBe('The log has no errors')
  })

  test('the text file of a log has every line with its time and without escape sequences', async () => {
    const page = await openLog('?lines=100000')
    await page.evaluate(() => logPage.addGap(3))
    const [download] = await Promise.all([page.waitForEvent('download'), button(page, 'As text').click()])
    expect(download.suggestedFilename()).toBe('build.log')
    const text = await readFile(await download.path(), 'utf8')
    const rows = text.trimEnd().split('\n')
    expect(rows).toHaveLength(100_001)
    expect(rows[0]).toBe('2026-01-01T00:00:00.010Z INFO  ✓ src/pages/1.tsx 1 kB')
    expect(rows[1]).toBe('2026-01-01T00:00:00.020Z WARN  warn rule 2 <b>')
    expect(rows[99_999]).toBe('2026-01-01T00:16:40.000Z ERROR Error: cannot resolve module 100000')
    expect(rows[100_000]).toBe('… 3 lines left out')
    expect(text).not.toContain('\u001b')
    expect(await page.evaluate(() => logPage.violations)).toEqual([])
  })

  test('a line of 1 MB is cut in its row and shown as a whole in a dialog, as text alone', async () => {
    const page = await openLog('?lines=0')
    await page.evaluate(() => {
      const start = 'start <img src=x onerror=alert(1)> \u202e'
      logPage.append([`${start}${'x'.repeat(1_000_000 - start.length - 4)}\nend`, 'one\ntwo\nthree'])
    })
    await seeLine(page, 1)
    expect(await region(page).getByText('start <img').innerText()).toHaveLength(4_096)
    await button(page, 'Show whole (1.0 MB)').click()
    const text = page.getByRole('dialog').locator('pre')
    const [length, ends, elements, nodes] = await text.evaluate(
      (pre) =>
        [
          pre.textContent.length,
          [pre.textContent.slice(0, 43), pre.textContent.slice(-4)],
          pre.childElementCount,
          pre.childNodes.length,
        ] as const,
    )
    expect(length).toBe(1_000_007)
    expect(ends).toEqual(['start <img src=x onerror=alert(1)> ⟨U+202E⟩', '\nend'])
    expect([elements, nodes]).toEqual([0, 16])
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await button(page, 'Show whole (3 lines)').click()
    expect(await text.innerText()).toBe('one\ntwo\nthree')
    expect(await page.evaluate(() => logPage.violations)).toEqual([])
  })

  test('the whole of a line can be copied', async () => {
    const page = await openLog('?lines=0', { permissions: ['clipboard-read', 'clipboard-write'] })
    await page.evaluate(() => logPage.append(['\u001b[31mone\ntwo']))
    await button(page, 'Show whole (2 lines)').click()
    await button(page, 'Copy').click()
    await button(page, 'Copied').waitFor()
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('one\ntwo')
  })

  test('links of a log open elsewhere, without telling from where', async () => {
    const page = await openLog('?lines=10')
    const link = page.getByRole('link', { name: 'rule 2' })
    expect(
      await link.evaluate(({ attributes }) => Object.fromEntries([...attributes].map((a) => [a.name, a.value]))),
    ).toMatchObject({
      href: 'https://example.com/2',
      target: '_blank',
      rel: 'noopener noreferrer',
    })
  })

  test('the focus stays in a log when the row that had it is scrolled away', async () => {
    const page = await openLog('?lines=1000')
    await page.getByRole('link', { name: 'Line 1', exact: true }).focus()
    await page.keyboard.press('End')
    await seeLine(page, 1_000)
    expect(await region(page).evaluate((element) => element === document.activeElement)).toBe(true)
  })

  test('times of a log are those of the reader, and UTC under the pointer', async () => {
    const page = await openLog('?lines=1', { timezoneId: 'Asia/Kolkata' })
    const time = region(page).locator('time')
    expect(await time.innerText()).toBe('05:30:00')
    expect(await time.getAttribute('title')).toBe('2026-01-01 00:00:00.010 UTC')
  })
})
