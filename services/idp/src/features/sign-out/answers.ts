import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { redirect } from '../../site/navigation.ts'
import type { Session } from '../../site/session.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import type { LogoutRequest } from './logout-request.ts'

/** The purpose of the CSRF token of the question. */
export const purposeOf = ({ search }: LogoutRequest): string => `sign-out\n${search}`

/** Answers a browser that is signed out: a redirect to the requesting client, or a page of ours. */
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

/** Asks whether to end the session. The form carries the request, and its token is valid for no other. */
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
