import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listEndpoints } from '../src/endpoints.ts'
import { describeInChromium } from '@platform/testkit/chromium'
import { isDrill } from '@platform/testkit/test-environment'
import { walkAccount, walkFactors, walkNames, walkSignedOut } from './every-page.ts'
import { type InvitationIssuer, startInvitationIssuer } from './invitation-issuer.ts'
import { startTestIdp, type TestIdp } from './start.ts'
import { walkJoin, walkSignUp } from './walk-coming-in.ts'

const DESKTOP = { width: 1_280, height: 800 }
const PHONE = { width: 390, height: 700 }
/** The narrowest that WCAG 2.2 asks for (1.4.10). */
const NARROW = { width: 320, height: 640 }

/** How messages of the browser begin that the walk itself brings about. */
const EXPECTED = [
  // Every refusal that it looks at is a request that failed.
  'Failed to load resource',
  // On a busy machine it fills in a form before the browser has drawn it once.
  'Autofocus processing was blocked because a document already has a focused element',
]

let issuer: InvitationIssuer
let idp: TestIdp
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  idp = await startTestIdp({ SIGN_UP: 'open', INVITATION_ISSUERS: issuer.entry })
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
})

/** What axe finds, as rule and place. */
async function flawsOf(page: Page, rules?: string[]): Promise<string[]> {
  await page.evaluate(axe.source)
  const options = rules ? { runOnly: rules } : {}
  const { violations } = await page.evaluate(
    (options) => (globalThis as unknown as { axe: typeof axe }).axe.run(options),
    options,
  )
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
}

/** How much wider the page is than the window. */
const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

/** What a refused form leaves unsaid: the page's title and one of its fields tell of the problem as well. */
const problemFlawsOf = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`
    !document.querySelector('#problem') ? [] : [
      ...(document.title.startsWith('Problem: ') ? [] : ['the title says nothing of the problem']),
      ...(document.querySelector('input[aria-describedby~=problem][aria-invalid=true]') ? [] : ['no field is said to be wrong']),
    ]`)

/** What the keyboard does not reach, and what does not show that it is reached. */
async function keyboardFlawsOf(page: Page): Promise<string[]> {
  // Text for the browser: this package has no types of the DOM.
  const wanted = await page.evaluate<number>(`{
    document.activeElement?.blur?.()
    globalThis.reached = new Map()
    globalThis.onfocusin ??= addEventListener('focusin', ({ target }) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(target)
      reached.set(target, outlineStyle === 'none' || outlineWidth === '0px' ? 'no focus on ' + target.outerHTML.slice(0, 80) : '')
    }) ?? true
    const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden], [tabindex="-1"]), summary, [tabindex="0"]')]
    all.filter((element) => element.checkVisibility()).length
  }`)
  // One more: between the last and the first the focus leaves the page.
  for (let i = 0; i <= wanted; i++) await page.keyboard.press('Tab')
  const [reached, flaws] = await page.evaluate<[number, string[]]>(
    "[reached.size, [...reached.values()].filter((flaw) => flaw !== '')]",
  )
  return reached === wanted ? flaws : [...flaws, `${reached} of ${wanted} are reached`]
}

describeInChromium(
  'every page of the account site (identity.md: keyboard and screen reader, light and dark)',
  (open) => {
    const seen = new Set<string>()

    test.each([
      { pages: 'before sign-in', walk: walkSignedOut },
      { pages: 'of creating an account', walk: walkSignUp },
      { pages: 'of an invitation', walk: walkJoin },
      { pages: 'of the account', walk: walkAccount },
      { pages: 'of passkeys and codes', walk: walkFactors },
      { pages: 'with unusual names', walk: walkNames },
    ])(
      'axe finds nothing on pages $pages in either colour scheme, they fit 320 px even with text of 200 %, Tab reaches all of them, and the console stays empty',
      async ({ walk }) => {
        const { context, page } = await open({ viewport: DESKTOP, reducedMotion: 'reduce' })
        const flaws: Record<string, string[]> = {}
        const logged = new Set<string>()
        page.on('console', (message) => {
          if (!EXPECTED.some((start) => message.text().startsWith(start))) logged.add(message.text())
        })
        await walk({
          idp,
          issuer,
          context,
          page,
          async look(name, page) {
            seen.add(new URL(page.url()).pathname)
            const problems: string[] = []
            await page.emulateMedia({ colorScheme: 'light' })
            problems.push(...(await flawsOf(page)))
            // Nothing but colours and places differ: their rule is enough, except in a drill.
            await page.setViewportSize(PHONE)
            await page.emulateMedia({ colorScheme: 'dark' })
            problems.push(
              ...(await flawsOf(page, isDrill ? undefined : ['color-contrast'])).map((flaw) => `dark: ${flaw}`),
            )
            await page.setViewportSize(NARROW)
            for (const size of ['100%', '200%']) {
              await page.evaluate(`document.documentElement.style.fontSize = '${size}'`)
              const overflow = await overflowOf(page)
              if (overflow > 0) problems.push(`${overflow} px wider than a narrow window with text of ${size}`)
            }
            await page.evaluate("document.documentElement.style.fontSize = ''")
            await page.setViewportSize(DESKTOP)
            problems.push(...(await problemFlawsOf(page)), ...(await keyboardFlawsOf(page)))
            if (problems.length > 0) flaws[name] = problems
          },
        })
        expect(flaws).toEqual({})
        expect([...logged]).toEqual([])
      },
      // It measures nothing: a walk takes long where other tests have the cores.
      300_000,
    )

    test('the walks leave no page of the site out', () => {
      const pages = listEndpoints(idp.deps)
        .filter(({ path, GET }) => GET && !/^\/(?:oauth2|\.well-known)\/|\.(?:css|js|svg|woff2)$/.test(path))
        .map(({ path }) => path)
      // GET of these only leads to the beginning.
      const alsoPosts = ['/sign-in/passkey', '/sign-in/code/passkey']
      expect(pages.filter((path) => !seen.has(path) && !alsoPosts.includes(path))).toEqual([])
    })
  },
)
