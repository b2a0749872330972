import { createHash } from 'node:crypto'
import type { Deps } from '../deps.ts'

export const AUTHORIZE_PATH = '/oauth2/authorize'

/**
 * Where a page may lead afterwards: the authorization request that sent the user here, or an account page. The URL is rebuilt
 * from its parts, never followed as received, so nothing leads to another site.
 */
export type ReturnTo = { kind: 'authorize'; url: string; search: string } | { kind: 'account'; url: string }

/** The authorization request of a query string (with its `?`), as a place to return to. */
export const returnToAuthorize = ({ issuer }: Pick<Deps, 'issuer'>, search: string): ReturnTo => ({
  kind: 'authorize',
  url: `${issuer}${AUTHORIZE_PATH}${search}`,
  search,
})

/**
 * The device page, with the code that is being entered (D65). isLinked: a link on another site led there, which the browser
 * tells of the first request alone.
 */
export function returnToDevice(
  { accountUrl }: Pick<Deps, 'accountUrl'>,
  userCode: string | undefined,
  { isLinked = false }: { isLinked?: boolean } = {},
): ReturnTo {
  const url = new URL(`${accountUrl}/device`)
  if (userCode !== undefined) url.searchParams.set('user_code', userCode)
  if (isLinked) url.searchParams.set('linked', 'yes')
  return { kind: 'account', url: url.href }
}

/** What an assertion looks like; it is verified where it is used. */
const ASSERTION = /^[\w-]{1,1000}\.[\w-]{1,3000}\.[\w-]{1,1000}$/

/** The page on which somebody takes an invitation (D112). Without an assertion it says that the invitation no longer works. */
export function returnToJoin({ accountUrl }: Pick<Deps, 'accountUrl'>, assertion: string | undefined): ReturnTo {
  const isAssertion = assertion !== undefined && ASSERTION.test(assertion)
  return { kind: 'account', url: `${accountUrl}/join${isAssertion ? `?invitation=${assertion}` : ''}` }
}

/** The assertion of the invitation that the user wants to take; undefined if they want to be elsewhere. */
export function readInvitationOf({ kind, url }: ReturnTo): string | undefined {
  const { pathname, searchParams } = new URL(url)
  return kind === 'account' && pathname.endsWith('/join') ? (searchParams.get('invitation') ?? undefined) : undefined
}

const returnToHome = ({ accountUrl }: Pick<Deps, 'accountUrl'>): ReturnTo => ({
  kind: 'account',
  url: `${accountUrl}/`,
})

/** Paths of the account pages for signed-in users: sign-in leads back to these and no others. */
const accountPages = [
  'email',
  'password',
  'authenticator',
  'authenticator/add',
  'passkeys',
  'passkeys/add',
  'sessions',
  'applications',
] as const
/** The name of a page that sign-in can lead back to. */
export type AccountPage = (typeof accountPages)[number]

/** An account page that needs a session. flow: why the page was opened, and where it leads afterwards. */
export const returnToPage = (
  { accountUrl }: Pick<Deps, 'accountUrl'>,
  page: AccountPage,
  flow?: ReturnTo,
): ReturnTo => ({
  kind: 'account',
  url: `${accountUrl}/${page}${flow ? `?returnTo=${encodeURIComponent(flow.url)}` : ''}`,
})

/** Pages that add a way to sign in, either on their own or because a flow waits for it. They need a `fresh` session. */
const pagesWithinFlows: readonly AccountPage[] = ['authenticator/add', 'passkeys/add']

/** True for a page that needs a recent sign-in: a user with a session may be sent there to sign in again. */
export const asksForFreshness = ({ accountUrl }: Pick<Deps, 'accountUrl'>, returnTo: ReturnTo): boolean =>
  pagesWithinFlows.some((page) => new URL(returnTo.url).pathname === new URL(`${accountUrl}/${page}`).pathname)

/** Reads the `returnTo` of a page that is part of a flow: a request, a device, an invitation; undefined for anything else. */
export function readFlow(
  deps: Pick<Deps, 'issuer' | 'accountUrl' | 'accountPath'>,
  text: string | null | undefined,
): ReturnTo | undefined {
  const flow = readReturnTo(deps, text ?? undefined)
  const isFlow =
    flow.kind === 'authorize' ||
    flow.url.startsWith(returnToDevice(deps, undefined).url) ||
    readInvitationOf(flow) !== undefined
  return isFlow ? flow : undefined
}

/** Reads a `returnTo` parameter: absolute or a path, of this origin and on the list; anything else means the account's home. */
export function readReturnTo(
  deps: Pick<Deps, 'issuer' | 'accountUrl' | 'accountPath'>,
  text: string | undefined,
): ReturnTo {
  const home = returnToHome(deps)
  if (text === undefined || !URL.canParse(text, deps.issuer)) return home
  const { origin, username, password, pathname, search, searchParams } = new URL(text, deps.issuer)
  if (origin !== deps.issuer || username !== '' || password !== '') return home
  if (pathname === AUTHORIZE_PATH) return returnToAuthorize(deps, search)
  if (pathname === `${deps.accountPath}/device`)
    return returnToDevice(deps, searchParams.get('user_code') ?? undefined, { isLinked: searchParams.has('linked') })
  if (pathname === `${deps.accountPath}/join`) return returnToJoin(deps, searchParams.get('invitation') ?? undefined)
  const page = accountPages.find((name) => pathname === `${deps.accountPath}/${name}`)
  if (page === undefined) return home
  return returnToPage(
    deps,
    page,
    pagesWithinFlows.includes(page) ? readFlow(deps, searchParams.get('returnTo')) : undefined,
  )
}

/** The hash by which a session remembers the request that it answered. */
export const hashRequest = (search: string): Buffer => createHash('sha256').update(search).digest()
