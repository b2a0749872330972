import type { Deps } from '../../deps.ts'
import { addressOf, type Ctx, userAgentOf } from '../../http/app.ts'
import { AuthorizeRefusal, type AuthorizeRequest } from './checks.ts'
import { issueCode } from './issue-code.ts'
import { type ReturnTo, returnToAuthorize } from './return-to.ts'
import type { Session } from '../sessions/sessions.ts'

/** Answers to the client's redirect URI carry `iss` (RFC 9207), and tell its pages nothing of where the user was. */
function redirectToClient(
  c: Ctx,
  { issuer }: Pick<Deps, 'issuer'>,
  { redirectUri, state }: Pick<AuthorizeRequest, 'redirectUri' | 'state'>,
  answer: Record<string, string>,
): Response {
  const query = new URLSearchParams({ ...answer, state, iss: issuer }).toString()
  const separator = redirectUri.includes('?') ? '&' : '?'
  c.header('referrer-policy', 'no-referrer')
  return redirect(c, `${redirectUri}${separator}${query}`)
}

/** A redirect that nobody keeps. After a POST it is 303, so that the next request is a GET for certain. */
export function redirect(c: Ctx, location: string): Response {
  c.header('cache-control', 'no-store')
  c.header('location', location)
  return c.body(null, c.req.method === 'POST' ? 303 : 302)
}

/** To the sign-in page, which leads back to where the user wanted to be. */
export const redirectToSignIn = (c: Ctx, { accountUrl }: Pick<Deps, 'accountUrl'>, returnTo: ReturnTo): Response =>
  redirect(c, `${accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}`)

/** To the page that asks for a second factor, which leads back as well. */
export const redirectToStepUp = (c: Ctx, { accountUrl }: Pick<Deps, 'accountUrl'>, returnTo: ReturnTo): Response =>
  redirect(c, `${accountUrl}/second-factor?returnTo=${encodeURIComponent(returnTo.url)}`)

/** Sends a refusal to the client (B §4 point 2). */
export const redirectRefusal = (c: Ctx, deps: Deps, { request, error, message }: AuthorizeRefusal): Response =>
  redirectToClient(c, deps, request, { error, error_description: message })

/** Issues a code and sends it to the client; where the session has ended meanwhile, it is as if there had been none. */
export async function redirectWithCode(
  c: Ctx,
  deps: Deps,
  request: AuthorizeRequest,
  session: Session,
): Promise<Response> {
  const browser = { userAgent: userAgentOf(c), address: addressOf(c, deps) }
  const code = await issueCode(deps, request, session, browser)
  if (code !== undefined) return redirectToClient(c, deps, request, { code })
  if (request.prompt.has('none')) throw new AuthorizeRefusal(request, 'login_required', 'The user has to sign in')
  return redirectToSignIn(c, deps, returnToAuthorize(deps, request.search))
}
