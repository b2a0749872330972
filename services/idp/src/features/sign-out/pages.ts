import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../site/csrf.ts'
import { answerPage, pageEndpoint } from '../../site/answer-page.ts'
import { redirect } from '../../site/navigation.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import { endSession, findSession, type Session } from '../sessions/sessions.ts'
import { checkLogoutRequest, type LogoutRequest } from './logout-request.ts'

const purposeOf = ({ search }: LogoutRequest): string => `sign-out\n${search}`

/** Where a browser that is signed out goes: back to the client that asked, or to a page of ours. */
export async function answerSignedOut(c: Ctx, deps: Deps, { redirectUri }: LogoutRequest): Promise<Response> {
  if (redirectUri !== undefined) {
    c.header('referrer-policy', 'no-referrer')
    return redirect(c, redirectUri)
  }
  return answerPage(c, deps, {
    title: 'You are signed out',
    content: html`<p class="soft">You are signed out of this browser.</p>
      <p><a href="${deps.accountUrl}/sign-in">Sign in again</a></p>`,
  })
}

/** Asks whether the session is to end. The form carries the request on, and its token is good for no other. */
export function answerQuestion(c: Ctx, deps: Deps, session: Session, request: LogoutRequest): Promise<Response> {
  const { client, redirectUri, search } = request
  return answerPage(c, deps, {
    title: 'Sign out?',
    formAction: redirectUri && formActionSource(redirectUri),
    content: html`<p>
        ${client ? html`<strong>${client.name}</strong> asks to sign you out. ` : ''}You are signed in as
        <strong>${session.user.email}</strong>.
      </p>
      <p class="soft">Applications that you use stay signed in until you leave them.</p>
      <form method="post" action="${deps.accountUrl}/sign-out">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(request))}" />
        <input type="hidden" name="request" value="${search}" />
        <button type="submit">Sign out</button>
      </form>
      <p><a href="${deps.accountUrl}/">Stay signed in</a></p>`,
  })
}

async function showSignOut(c: Ctx, deps: Deps): Promise<Response> {
  const request = await checkLogoutRequest(deps, '')
  const session = await findSession(c, deps)
  return session ? answerQuestion(c, deps, session, request) : answerSignedOut(c, deps, request)
}

async function signOut(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const request = await checkLogoutRequest(deps, form.get('request') ?? '')
  const session = await findSession(c, deps)
  if (session) {
    requireCsrfOfSession(c, deps, form, session, purposeOf(request))
    await endSession(c, deps)
  }
  return answerSignedOut(c, deps, request)
}

export const signOutEndpoint = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint =>
  pageEndpoint(`${accountPath}/sign-out`, { GET: showSignOut, POST: signOut })
