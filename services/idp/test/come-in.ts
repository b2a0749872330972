import { Browser, type Visit } from '@platform/testkit/browser'
import type { TestIdp } from './start.ts'

export const PASSWORD = 'a password of several words'
/** What the form of names takes, with a password. */
export const NAMES = { givenName: 'Ada', familyName: 'Lovelace', new: PASSWORD, again: PASSWORD }
export const withPassword = { name: 'way', value: 'password' }
export const withPasskey = { name: 'way', value: 'passkey' }

let networks = 0
let people = 0
/** From a separate network, since requests from one network count together. */
export function stranger(): Browser {
  networks++
  return new Browser({ 'x-forwarded-for': `10.40.${networks >> 8}.${networks & 255}` })
}

/** An address that nobody has, as long as every other one. */
export function newAddress(domain = 'example.com'): string {
  people++
  return `p${String(people).padStart(5, '0')}@${domain}`
}

/** Somebody who creates an account. */
export interface Newcomer {
  email: string
  browser: Browser
  /** What they see. */
  page: Visit
}

interface Visiting {
  browser?: Browser
  returnTo?: string
}

export const signUpUrl = ({ url }: TestIdp, returnTo?: string): string =>
  `${url}/sign-up${returnTo === undefined ? '' : `?returnTo=${encodeURIComponent(returnTo)}`}`

/** Asks for a code: the page is the one that waits for it. */
export async function askForCode(
  idp: TestIdp,
  email: string,
  { browser = stranger(), returnTo }: Visiting = {},
): Promise<Newcomer> {
  const sent = await browser.submit(await browser.visit(signUpUrl(idp, returnTo)), { email })
  return { email, browser, page: await browser.follow(sent, idp.url) }
}

/** The code of a letter, as it stands there; undefined if it has none. */
export const codeIn = (letter: string | undefined): string | undefined =>
  /^[0-9A-Z]{4}-[0-9A-Z]{4}\r?$/m.exec(letter ?? '')?.[0].trim()

/** The code of the last letter to an address. */
export async function lastCode(idp: TestIdp, email: string): Promise<string> {
  const letter = (await idp.letters({ email })).at(-1)
  const code = codeIn(letter)
  if (code === undefined) throw new Error(`No code in ${letter}`)
  return code
}

/** Proves an address: the page asks for names. */
export async function proveAddress(idp: TestIdp, email: string, visiting?: Visiting): Promise<Newcomer> {
  const { browser, page } = await askForCode(idp, email, visiting)
  const typed = await browser.submit(page, { code: await lastCode(idp, email) })
  return { email, browser, page: await browser.follow(typed, idp.url) }
}

/** Creates an account with a password: the page is the answer to the last form. */
export async function signUp(idp: TestIdp, email: string, visiting?: Visiting): Promise<Newcomer> {
  const { browser, page } = await proveAddress(idp, email, visiting)
  return { email, browser, page: await browser.submit(page, NAMES, withPassword) }
}

/** The ids of the accounts with an address, whatever its case. */
export async function accountsOf({ deps }: TestIdp, email: string): Promise<string[]> {
  const rows = await deps.db.execute<{ id: string }>(`select id from users where lower(email) = lower('${email}')`)
  return rows.map(({ id }) => id)
}
