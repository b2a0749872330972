import { html } from 'hono/html'
import { z } from 'zod'
import { answerPage } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { decisionBar } from '../../site/decision-bar.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import type { ReturnTo } from '../../site/return-to.ts'
import { formActionSource, isNativeRedirectUri } from '../clients/redirect-uri.ts'
import { grantConsent } from '../consents/consents.ts'
import { scopeList } from '../consents/scope-list.ts'
import { whoAsks } from '../consents/who-asks.ts'
import { aboutRequest, type RequestInReturnTo } from './about-request.ts'
import { AuthorizeRefusal, checkAuthorizeRequest } from './checks.ts'
import { decideAuthorize } from './decide.ts'
import { redirectRefusal, redirectWithCode } from './redirects.ts'

const purposeOf = (returnTo: ReturnTo): string => `consent\n${returnTo.url}`

async function showConsent({
  c,
  deps,
  session,
  target: returnTo,
}: PageCall<'any', RequestInReturnTo>): Promise<Response> {
  const { client, redirectUri, scopes } = await checkAuthorizeRequest(deps, returnTo.search).catch((error: unknown) => {
    if (error instanceof AuthorizeRefusal) return { client: null, redirectUri: '', scopes: [] }
    throw error
  })
  if (client === null) return redirect(c, returnTo.url)
  return answerPage(c, deps, {
    title: `Connect ${client.name}?`,
    formAction: formActionSource(redirectUri),
    content: html`
      <p><strong>${client.name}</strong> wants to use your account.</p>
      <dl>
        ${whoAsks(client)}
        <dt>Leads to</dt>
        <dd>${isNativeRedirectUri(redirectUri, client) ? 'A program on this machine' : new URL(redirectUri).host}</dd>
        <dt>Your account</dt>
        <dd>
          <strong>${session.user.email}</strong><br />
          <a href="${deps.accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}">Use another account</a>
        </dd>
      </dl>
      <h2>It would be able to</h2>
      ${scopeList(scopes)}
      ${decisionBar({
        action: `${deps.accountUrl}/consent`,
        hidden: html`<input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(returnTo))}" />
          <input type="hidden" name="returnTo" value="${returnTo.url}" />`,
      })}
    `,
  })
}

const answer = z.object({ decision: textField })

async function decideConsent({
  c,
  deps,
  session,
  target: returnTo,
  form,
}: FormCall<'any', typeof answer, RequestInReturnTo>): Promise<Response> {
  try {
    const request = await checkAuthorizeRequest(deps, returnTo.search)
    c.set('clientId', request.client.id)
    if (form.decision !== 'approve') throw new AuthorizeRefusal(request, 'access_denied', 'The user denied the request')
    const decision = await decideAuthorize(deps, request, session, true)
    if (decision.next !== 'issue') return redirect(c, returnTo.url)
    const { client, scopes } = request
    await grantConsent(deps, { userId: session.user.id, clientId: client.id, scopes })
    return await redirectWithCode(c, deps, request, session)
  } catch (error) {
    if (error instanceof AuthorizeRefusal) return redirectRefusal(c, deps, error)
    throw error
  }
}

export const consentPage = page({
  path: '/consent',
  ...aboutRequest,
  show: showConsent,
  form: answer,
  csrf: ({ target }) => purposeOf(target),
  submit: decideConsent,
})
