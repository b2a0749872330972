import type { Deps } from '../../deps.ts'
import { addressOf, type Ctx, userAgentOf } from '../../http/app.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { returnToAuthorize } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { AuthorizeRefusal, type AuthorizeRequest } from './checks.ts'
import { issueCode } from './issue-code.ts'

/** Redirects to the client carry `iss` (RFC 9207), and no referrer that would tell its pages where the user was. */
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

/** Sends a refusal to the client (B §4 point 2). */
export const redirectRefusal = (c: Ctx, deps: Deps, { request, error, message }: AuthorizeRefusal): Response =>
  redirectToClient(c, deps, request, { error, error_description: message })

/** Issues a code and sends it to the client; if the session has ended meanwhile, it continues as without a session. */
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
