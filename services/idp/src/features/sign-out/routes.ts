import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { showRefusals } from '../../site/answer-page.ts'
import { redirectPostAsGet } from '../../site/post-as-get.ts'
import type { Session } from '../../site/session.ts'
import { endSession, findSession } from '../sessions/sessions.ts'
import { answerQuestion, answerSignedOut } from './answers.ts'
import { checkLogoutRequest, type LogoutRequest } from './logout-request.ts'

const LOGOUT_PATH = '/oauth2/logout'

/** True if the client proves that it holds the user's sign-in of this very session: then no question is needed. */
const isOfSession = ({ hint }: LogoutRequest, session: Session): boolean =>
  hint?.userId === session.user.id && hint.sid === session.id

/**
 * GET /oauth2/logout: signs a client's user out (OpenID Connect RP-Initiated Logout 1.0). Refusals are pages, never
 * redirects.
 */
async function logout(c: Ctx, deps: Deps): Promise<Response> {
  const request = await checkLogoutRequest(deps, new URL(c.req.url).search)
  c.set('clientId', request.client?.id)
  const session = await findSession(c, deps)
  if (session && !isOfSession(request, session)) return answerQuestion(c, deps, session, request)
  await endSession(c, deps)
  return answerSignedOut(c, deps, request)
}

export const logoutEndpoint: Endpoint = {
  path: LOGOUT_PATH,
  cors: false,
  GET: showRefusals(logout),
  POST: showRefusals((c, deps) => redirectPostAsGet(c, deps, LOGOUT_PATH)),
}
