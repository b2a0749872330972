import { type Person, startPlatform, type TestPlatform } from '@platform/testing/platform'
import type { BrowserContext, Page } from 'playwright-core'
import { expect, inject } from 'vitest'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'

/** The two real services, and the console as it was built for the run. */
export const startWithConsole = (options: Parameters<typeof startPlatform>[0] = {}): Promise<TestPlatform> =>
  startPlatform({ consoleFolder: inject('consoleFolder'), hasWorker: true, ...options })

/** What went wrong in the windows of a context, whatever a test looked at; empty when all is well. */
export interface Watch {
  /** Refusals of the content security policy, exceptions, and requests to strange origins. */
  faults: string[]
}

/**
 * Watches all windows of a context from here on. Origins are the console's, the API's, the provider's and the edge's; blob: is the page's
 * own.
 */
export async function watch(context: BrowserContext, platform: TestPlatform): Promise<Watch> {
  const faults: string[] = []
  const origins = new Set([platform.consoleUrl, platform.apiUrl, platform.idpUrl].map((url) => new URL(url).origin))
  await context.exposeFunction('reportViolation', (text: string) => void faults.push(text))
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile, lineNumber }) =>
      (globalThis as unknown as { reportViolation(text: string): void }).reportViolation(
        `${violatedDirective} refused ${blockedURI} at ${sourceFile}:${lineNumber}`,
      ),
    )
  })
  const follow = (page: Page): void => {
    page.on('pageerror', (error) => faults.push(`exception: ${error.message}`))
    page.on('request', (request) => {
      // What visitors of a deployment see is nobody's business here.
      if (!page.url().startsWith(platform.consoleUrl)) return
      const url = new URL(request.url())
      if (!origins.has(url.origin) && url.protocol !== 'blob:' && !request.isNavigationRequest())
        faults.push(`asked ${request.url()}`)
    })
  }
  context.on('page', follow)
  context.pages().forEach(follow)
  return { faults }
}

/** Fills the provider's sign-in page, by mouse. */
export async function giveCredentials(
  page: Page,
  { email, password }: Pick<Person, 'email' | 'password'>,
): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/** Opens a page of the console as somebody who signs in on the way. */
export async function openSignedIn(page: Page, platform: TestPlatform, person: Person, path = '/'): Promise<void> {
  await page.goto(platform.consoleUrl + path)
  await giveCredentials(page, person)
  await page.waitForURL((url) => url.origin === platform.consoleUrl && url.pathname !== '/callback')
  await expect.poll(() => page.getByRole('heading', { level: 1 }).count()).toBe(1)
}

/** An application, and the address of its page. */
export interface Place {
  owner: Owner
  path: string
}

export async function newPlace(platform: TestPlatform): Promise<Place> {
  const owner = await newOwner(platform)
  const { body } = await platform.call(owner.token, `GET /applications?organizationId=${owner.organizationId}`)
  const [application] = body.items as { slug: string; organization: { slug: string } }[]
  return { owner, path: `/${application?.organization.slug}/${application?.slug}` }
}
