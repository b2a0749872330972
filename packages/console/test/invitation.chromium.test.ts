import { describeInChromium } from '@platform/testkit/chromium'
import { type MailServer, startMailServer } from '@platform/testkit/mail-server'
import type { TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner } from '../../../services/api/test/scenario.ts'
import { startWithConsole } from './console.ts'

let mail: MailServer
let platform: TestPlatform

beforeAll(async () => {
  mail = await startMailServer()
  // Closed to strangers: the invitation alone admits.
  platform = await startWithConsole({ env: { MAIL_URL: mail.url }, idpEnv: { MAIL_URL: mail.url } })
})
afterAll(async () => {
  await platform.close()
  await mail.close()
})

const linkIn = (letter: string): string => /https?:\S+/.exec(letter)?.[0] ?? ''

/** A hand that counts: each field that is filled in, each link that is opened and each button that is pressed. */
function countingHand(page: Page) {
  let count = 0
  return {
    count: () => count,
    open: (url: string) => (count++, page.goto(url)),
    fill: (label: string, text: string) => (count++, page.getByLabel(label, { exact: true }).fill(text)),
    press: (name: string | RegExp) => (
      count++,
      page
        .getByRole('button', { name, exact: true })
        .or(page.getByRole('link', { name, exact: true }))
        .click()
    ),
  }
}

describeInChromium('an invitation to an organization', (open) => {
  test('from the opened letter somebody without an account is a member in at most twelve clicks and fields (D112)', async () => {
    const owner = await newOwner(platform)
    const email = 'ada@example.com'
    const invited = await platform.call(
      await owner.person.token(['platform:members:write'], { signInAgain: true }),
      `POST /organizations/${owner.organizationId}/invitations`,
      { email, role: 'MEMBER' },
    )
    expect(invited.status).toBe(201)

    const { page } = await open({ viewport: { width: 390, height: 800 } })
    const hand = countingHand(page)
    await hand.open(linkIn(await mail.nextLetter(email)))
    await hand.press(/^Create one/)
    await hand.press('Mail me a code')
    await hand.open(linkIn(await mail.nextLetter(email)))
    await hand.press('Continue')
    await hand.fill('Given name', 'Ada')
    await hand.fill('New password', 'three words of hers')
    await hand.fill('New password, once more', 'three words of hers')
    await hand.press('Create account')
    await hand.press('Join')
    await hand.press(/^Open /)
    await page.waitForURL((url) => url.origin === platform.consoleUrl && url.pathname !== '/callback')
    const members = () => platform.call(owner.token, `GET /organizations/${owner.organizationId}/members`)
    await expect.poll(async () => (await members()).body.items.length as number).toBe(2)
    expect(hand.count()).toBeLessThanOrEqual(12)
    // The console shows what she was invited to.
    const { name } = (await platform.call(owner.token, `GET /organizations/${owner.organizationId}`)).body as {
      name: string
    }
    await expect.poll(() => page.title()).toContain(name)
  })
})
