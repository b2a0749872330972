import type { Page } from 'playwright-core'
import { newAddress, PASSWORD } from './come-in.ts'
import { signIn, type Walk } from './every-page.ts'
import { linkIn, startTestIdp } from './start.ts'

const WRONG = '0000-0000'
/** How long a code works. */
const CODE_MS = 10 * 60_000

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

async function askForCode(page: Page, email: string): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await button(page, 'Mail me a code').click()
  await page.getByText('A letter is on its way').waitFor()
}

async function typeCode(page: Page, code: string): Promise<void> {
  await page.getByLabel('Code').fill(code)
  await button(page, 'Continue').click()
}

async function fillInNames(page: Page, again = PASSWORD): Promise<void> {
  await page.getByLabel('Given name').fill('Ada')
  await page.getByLabel('New password', { exact: true }).fill(PASSWORD)
  await page.getByLabel('New password, once more').fill(again)
  await button(page, 'Create account').click()
}

/** The beginning where not everybody may create an account. */
async function walkPolicies({ page, look }: Walk): Promise<void> {
  const closed = await startTestIdp({ SUPPORT_URL: 'mailto:help@example.com' })
  await page.goto(`${closed.url}/sign-up`)
  await look('sign-up, closed', page)
  await closed.close()
  const domains = await startTestIdp({
    SIGN_UP: 'domains',
    SIGN_UP_DOMAINS: `example.com,example.org,${'a-rather-long-name.'.repeat(5)}example`,
    SHOW_MAIL_FOLDER: 'true',
  })
  await page.goto(`${domains.url}/sign-up`)
  await look('sign-up, domains', page)
  await askForCode(page, 'ada@example.com')
  await look('sign-up/code, where letters are files', page)
  await domains.close()
}

/** Creating an account, from the address to the names. */
export async function walkSignUp(walk: Walk): Promise<void> {
  const { idp, context, page, look } = walk
  const email = newAddress()
  await page.goto(`${idp.url}/sign-up`)
  await look('sign-up', page)
  await page.getByLabel('Email').fill(`${'x'.repeat(65)}@example.com`)
  await button(page, 'Mail me a code').click()
  await page.getByRole('alert').waitFor()
  await look('sign-up, refused', page)
  await askForCode(page, email)
  await typeCode(page, WRONG)
  await page.getByRole('alert').waitFor()
  await look('sign-up/code, wrong', page)
  idp.advance(CODE_MS)
  await typeCode(page, WRONG)
  await page.getByText('This code is over').waitFor()
  await look('sign-up/code, over', page)

  await page.goto(`${idp.url}/sign-up`)
  await askForCode(page, email)
  // As in another browser.
  await context.clearCookies()
  await page.goto(linkIn((await idp.letters({ email })).at(-1)))
  await look('sign-up/code, in another browser', page)

  await page.goto(`${idp.url}/sign-up`)
  await askForCode(page, email)
  await page.goto(linkIn((await idp.letters({ email })).at(-1)))
  await button(page, 'Continue').click()
  await page.getByLabel('Given name').waitFor()
  await look('sign-up/name', page)
  await fillInNames(page, 'another than that')
  await page.getByRole('alert').waitFor()
  await look('sign-up/name, refused', page)
  await walkPolicies(walk)
}

/** Following an invitation to an organization. */
export async function walkJoin(walk: Walk): Promise<void> {
  const { idp, issuer, context, page, look } = walk
  const join = async (claims: Record<string, unknown>) =>
    `${idp.url}/join?invitation=${await issuer.invite(idp, claims)}`
  const ana = await idp.person()
  const url = await join({ email: ana.email })
  await page.goto(url)
  await look('join, signed out', page)
  await page.goto(`${idp.url}/sign-up?returnTo=${encodeURIComponent(url)}`)
  await look('sign-up, invited', page)
  await page.goto(`${idp.url}/join?invitation=x`)
  await look('join, gone', page)
  await signIn(walk, ana)
  await page.goto(await join({ email: newAddress() }))
  await look('join, another account', page)
  const names = { organization: 'x'.repeat(255), inviter: 'م'.repeat(255) }
  await page.goto(await join({ ...names, email: ana.email, role: 'OWNER', console: 'https://console.example.com' }))
  await look('join', page)
  await button(page, 'Join').click()
  await page.getByText('You are joining').waitFor()
  await look('join/confirm, done', page)
  await context.clearCookies()
  const bob = await idp.person({ emailVerified: false })
  await signIn(walk, bob)
  await page.goto(await join({ email: bob.email }))
  await look('join, not confirmed', page)
}
