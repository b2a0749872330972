import type { Page } from 'playwright-core'
import { addVirtualAuthenticator, describeInChromium } from '@platform/testkit/chromium'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lastCode, newAddress, PASSWORD } from '../../../test/come-in.ts'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

const STEPS_MAX = 12

let issuer: InvitationIssuer
let idp: TestIdp
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  idp = await startTestIdp({ INVITATION_ISSUERS: issuer.entry })
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
})

/** Somebody at a page, whose clicks and fields are counted. */
function countedUser(page: Page) {
  let steps = 0
  return {
    steps: () => steps,
    async open(url: string) {
      steps++
      await page.goto(url)
    },
    async click(role: 'link' | 'button', name: string | RegExp) {
      steps++
      await page.getByRole(role, { name, exact: true }).click()
    },
    async fill(label: string, text: string) {
      steps++
      await page.getByLabel(label, { exact: true }).fill(text)
    },
  }
}

/** From the link of the invitation's letter to the form of names, by way of the letter with the code. */
async function comeIn(page: Page, email: string) {
  const user = countedUser(page)
  await user.open(`${idp.url}/join?invitation=${await issuer.invite(idp, { email })}`)
  await user.click('link', `Create one with ${email}`)
  await user.click('button', 'Mail me a code')
  await page.getByText('A letter is on its way').waitFor()
  await user.fill('Code', await lastCode(idp, email))
  await user.click('button', 'Continue')
  await user.fill('Given name', 'Ada')
  return user
}

async function join(page: Page, user: ReturnType<typeof countedUser>): Promise<number> {
  await user.click('button', 'Join')
  await page.getByRole('heading', { name: 'You are joining Analytical Engines' }).waitFor()
  return user.steps()
}

async function withPassword(page: Page, email: string): Promise<number> {
  const user = await comeIn(page, email)
  await user.fill('New password', PASSWORD)
  await user.fill('New password, once more', PASSWORD)
  await user.click('button', 'Create account')
  return join(page, user)
}

describeInChromium('from the letter of an invitation to the organization (D112)', (open) => {
  test('it takes at most twelve clicks and fields with a password, and fewer with a passkey, which then signs in', async () => {
    const { page } = await open()
    const byPassword = await withPassword(page, newAddress())
    expect(byPassword).toBeLessThanOrEqual(STEPS_MAX)

    const { context, page: another } = await open()
    const authenticator = await addVirtualAuthenticator(context, another)
    const user = await comeIn(another, newAddress())
    await user.click('button', 'Use a passkey in place of a password')
    await user.click('button', 'Add a passkey')
    expect(await join(another, user)).toBeLessThan(byPassword)
    expect(await authenticator.credentials()).toHaveLength(1)
    await context.clearCookies()
    // Chromium's virtual authenticator accepts the offer of the page automatically.
    await another.goto(`${idp.url}/sign-in`)
    await another.waitForURL(`${idp.url}/`)
  })

  test('everything but passkeys works without JavaScript, and passkeys are not offered there', async () => {
    const { context, page } = await open({ javaScriptEnabled: false })
    const email = newAddress()
    const user = await comeIn(page, email)
    expect(await page.getByRole('button').allTextContents()).toEqual(['Create account'])
    await user.fill('New password', PASSWORD)
    await user.fill('New password, once more', 'another than that')
    await user.click('button', 'Create account')
    await page.getByRole('alert').filter({ hasText: 'not the same' }).waitFor()
    await user.fill('New password', PASSWORD)
    await user.fill('New password, once more', PASSWORD)
    await user.click('button', 'Create account')
    await join(page, user)
    // The same again for somebody who has an account and is signed out.
    await context.clearCookies()
    await user.open(`${idp.url}/join?invitation=${await issuer.invite(idp, { email })}`)
    await user.click('link', 'Sign in to join')
    await user.fill('Email', email)
    await user.fill('Password', PASSWORD)
    await user.click('button', 'Sign in')
    await join(page, user)
  })
})
