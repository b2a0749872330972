import { scopeCatalogue } from '@platform/auth/scopes'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeInChromium } from '@platform/testkit/chromium'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

const PHONE = { width: 390, height: 844 }
/** Harmless scopes first: the order that an attacker would request. */
const WORST_ORDER = scopeCatalogue.toReversed().toSorted((a, b) => Number(isActing(a)) - Number(isActing(b)))
function isActing(scope: string): boolean {
  return /:(?:write|delete|trigger|chat|budgets|policies)$|^offline_access$/.test(scope)
}

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

interface Line {
  scopes: string
  top: number
  isVisible: boolean
  /** Ancestors that scroll, or would with more content. */
  scrolledBy: string[]
}

// As text for the browser, since this package has no DOM types.
const linesOf = (page: Page) =>
  page.evaluate<Line[]>(`[...document.querySelectorAll('ul.scopes li')].map((line) => {
    const scrolledBy = []
    for (let around = line; around !== document.documentElement; around = around.parentElement) {
      const { overflowX, overflowY, maxHeight } = getComputedStyle(around)
      const isCut = around.scrollHeight > around.clientHeight && around !== document.body && around.clientHeight > 0
      if (overflowX !== 'visible' || overflowY !== 'visible' || maxHeight !== 'none' || isCut)
        scrolledBy.push(around.outerHTML.slice(0, 80))
    }
    const { top, height } = line.getBoundingClientRect()
    return { scopes: line.title, top, isVisible: height > 0 && line.checkVisibility(), scrolledBy }
  })`)

describeInChromium('a long list of scopes on a phone', (open) => {
  test.each(['device', 'consent'])(
    'the %s page hides none of them, and what writes or deletes is above what reads',
    async (kind) => {
      const { page } = await open({ viewport: PHONE })
      const ana = await idp.person()
      const client = await idp.client({ isFirstParty: false })
      await page.goto(`${idp.url}/sign-in`)
      await page.getByLabel('Email').fill(ana.email)
      await page.getByLabel('Password', { exact: true }).fill(ana.password)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.waitForURL((url) => !url.pathname.endsWith('/sign-in'))
      if (kind === 'consent') await page.goto(idp.authorizeUrl(client, { scope: WORST_ORDER.join(' ') }))
      else {
        const form = { client_id: client.id, scope: WORST_ORDER.join(' ') }
        const json = { 'content-type': 'application/json' }
        const { body } = await idp.send('POST /oauth2/device_authorization', form, json)
        await page.goto((body as { verification_uri_complete: string }).verification_uri_complete)
      }
      const lines = await linesOf(page)
      expect(lines.filter(({ isVisible, scrolledBy }) => !isVisible || scrolledBy.length > 0)).toEqual([])
      const shown = lines.toSorted((a, b) => a.top - b.top).flatMap(({ scopes }) => scopes.split(' '))
      expect(shown.toSorted()).toEqual(scopeCatalogue.toSorted())
      const lastActing = shown.findLastIndex(isActing)
      expect(shown.slice(0, lastActing + 1).filter((scope) => !isActing(scope))).toEqual([])
      expect(shown.slice(-3)).toEqual(['openid', 'profile', 'email'])
    },
  )
})
