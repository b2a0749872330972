import { join } from 'node:path'
import { env } from 'node:process'
import type { Page } from 'playwright-core'

/** The pictures of docs/console.md, each of which a walk takes. */
export const pictures = [
  'applications',
  'application',
  'deployment',
  'logs',
  'variables',
  'new-key',
  'organization',
  'go-to',
  'as-a-command',
] as const

export const FOLDER = join(import.meta.dirname, '../../../docs/console')

/** Takes a picture for the tour where one is wanted (TEST_TOUR), as the page is. */
export async function takePicture(page: Page, name: (typeof pictures)[number]): Promise<void> {
  if (env['TEST_TOUR'] === undefined) return
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: join(FOLDER, `${name}.png`), animations: 'disabled', caret: 'hide' })
}
