import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { env } from 'node:process'
import axe from 'axe-core'
import type { Page } from 'playwright-core'

export const DESKTOP = { width: 1_280, height: 800 }
const PHONE = { width: 360, height: 740 }
/** The narrowest that WCAG 2.2 asks for (1.4.10). */
const NARROW = { width: 320, height: 640 }

/** Of rows that are alike a snapshot has so many. */
const ROWS_KEPT = 10

/** Where pictures of what the tests look at are put, if they are wanted. */
const pictures = env['TEST_PICTURES']

/** What axe finds, as rule and place. */
async function flawsOf(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: typeof axe }).axe.run({
      // As long as it is new, it has to be asked for.
      rules: { 'target-size': { enabled: true } },
      resultTypes: ['violations'],
    }),
  )
  const flaws = violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
  // Numbers of lines are as high as lines of text are (WCAG 2.5.8, inline).
  return flaws.filter((flaw) => !/^target-size: a\[href\$="#L\d+"\]$/.test(flaw))
}

/** What makes the page wider than the window, if it is: the innermost elements that reach beyond it. */
const overflowOf = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    if (scrollWidth <= clientWidth) return []
    const reaches = (element: Element): boolean => element.getBoundingClientRect().right > clientWidth
    const innermost = [...document.querySelectorAll('body *')].filter(
      (element) => reaches(element) && ![...element.children].some(reaches),
    )
    return [
      `${scrollWidth - clientWidth} px`,
      ...innermost.slice(0, 12).map((element) => element.outerHTML.slice(0, 120)),
    ]
  })

async function takePictures(page: Page, name: string): Promise<void> {
  if (pictures === undefined) return
  await mkdir(pictures, { recursive: true })
  for (const size of [DESKTOP, PHONE])
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize(size)
      await page.emulateMedia({ colorScheme })
      await page.screenshot({ path: join(pictures, `${name} ${size.width} ${colorScheme}.png`), fullPage: true })
    }
  await page.setViewportSize(DESKTOP)
  await page.emulateMedia({ colorScheme: 'light' })
}

/** What is wrong with what a page shows. isFull: looked at in dark and with large text, too. */
export async function look(page: Page, name: string, { isFull = false } = {}): Promise<string[]> {
  await takePictures(page, name)
  const flaws = (await flawsOf(page)).map((flaw) => `${name}: ${flaw}`)
  const headings = await page.getByRole('heading', { level: 1 }).count()
  if (headings !== 1) flaws.push(`${name}: ${headings} headings of level 1`)
  await page.setViewportSize(PHONE)
  const checkWidth = async (what: string): Promise<void> => {
    const overflow = await overflowOf(page)
    if (overflow.length > 0) flaws.push(`${name}: wider than ${what}: ${overflow.join('\n')}`)
  }
  await checkWidth('a phone')
  if (isFull) {
    await page.emulateMedia({ colorScheme: 'dark' })
    flaws.push(...(await flawsOf(page)).map((flaw) => `${name}, dark and narrow: ${flaw}`))
    await page.emulateMedia({ colorScheme: 'light' })
    await page.setViewportSize(NARROW)
    await page.evaluate(() => (document.documentElement.style.fontSize = '200%'))
    await checkWidth('a narrow window with large text')
    await page.evaluate(() => (document.documentElement.style.fontSize = ''))
  }
  await page.setViewportSize(DESKTOP)
  return flaws
}

/** Goes to an address as by a link of the page, and waits until the page before it is gone: its fields may have the same names. */
export async function go(page: Page, path: string): Promise<void> {
  await page.evaluate((href) => {
    const link = document.createElement('a')
    link.href = href
    document.body.append(link)
    link.click()
    link.remove()
  }, path)
  // By then the console has begun to draw or to fetch: it does so in the microtasks of the click.
  await page.locator('main[aria-busy="false"]').waitFor()
}

/** An accessibility tree without what differs from run to run, and without the rows of a table or list that are like those before. */
export function settled(tree: string): string {
  const text = tree
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\b[0-9a-f]{4}…[0-9a-f]{6}\b/g, '<id>')
    .replaceAll(/^ *- button "[\d,]+ new"\n/gm, '')
    .replaceAll(/cursor=[\w.-]+/g, 'cursor=<random>')
    .replaceAll(/localhost:\d+/g, 'localhost:<port>')
    .replaceAll(/\b(site|app)-[0-9a-f]{8,10}x?/g, '$1-<random>')
    .replaceAll(/[0-9a-f]{12}@example\.com/g, '<email>')
    .replaceAll(/\b\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d/g, '<time>')
    .replaceAll(/\b\d\d:\d\d:\d\d\b/g, '<time>')
    .replaceAll(/(?<!errors )\bin \d+ (?:minute|hour|day)s?\b|\btomorrow\b/g, '<until>')
    .replaceAll(/(?<!Run )\bnow\b|\b(?:\d+ (?:second|minute|hour|day)s? ago|yesterday)\b/g, '<ago>')
  const kept: string[] = []
  let [rows, left] = [0, 0]
  let isLeft = false
  let indent = ''
  const close = (): void => {
    if (left > 0) kept.push(`${indent}# and ${left} more`)
    ;[rows, left, isLeft] = [0, 0, false]
  }
  for (const line of text.split('\n')) {
    const own = /^ */.exec(line)?.[0] ?? ''
    const isRow = /^ *- (?:row|listitem)\b/.test(line) && (rows === 0 || own === indent)
    if (isRow) {
      indent = own
      isLeft = ++rows > ROWS_KEPT
      if (isLeft) left++
    } else if (rows > 0 && own.length <= indent.length) close()
    if (!isLeft) kept.push(line)
  }
  close()
  return `${kept.join('\n')}\n`
}
