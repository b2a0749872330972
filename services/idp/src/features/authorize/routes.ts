import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { redirect } from '../../site/navigation.ts'
import { redirectPostAsGet } from '../../site/post-as-get.ts'
import { AUTHORIZE_PATH, returnToAuthorize } from '../../site/return-to.ts'
import { findSession } from '../sessions/sessions.ts'
import { AuthorizeRefusal, checkAuthorizeRequest } from './checks.ts'
import { decideAuthorize } from './decide.ts'
import { redirectRefusal, redirectWithCode } from './redirects.ts'

/**
 * GET /oauth2/authorize (B §4): checks the parameters, then the session, then sends a code or shows the page that comes
 * first.
 */
async function authorize(c: Ctx, deps: Deps): Promise<Response> {
  const { search } = new URL(c.req.url)
  try {
    const request = await checkAuthorizeRequest(deps, search)
    c.set('clientId', request.client.id)
    const decision = await decideAuthorize(deps, request, await findSession(c, deps))
    if (decision.next === 'issue') return await redirectWithCode(c, deps, request, decision.session)
    const returnTo = encodeURIComponent(returnToAuthorize(deps, search).url)
    return redirect(c, `${deps.accountUrl}/${decision.next}?returnTo=${returnTo}`)
  } catch (error) {
    if (error instanceof AuthorizeRefusal) return redirectRefusal(c, deps, error)
    throw error
  }
}

/** POST /oauth2/authorize: the same request as a GET. */
const authorizeByPost = (c: Ctx, deps: Deps): Promise<Response> => redirectPostAsGet(c, deps, AUTHORIZE_PATH)

export const authorizeEndpoint: Endpoint = { path: AUTHORIZE_PATH, cors: false, GET: authorize, POST: authorizeByPost }
