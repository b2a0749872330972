import { html } from 'hono/html'
import { z } from 'zod'
import { answerPage } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { hashRequest, type ReturnTo } from '../../site/return-to.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import { noteAnswer } from '../sessions/sessions.ts'
import { aboutRequest, type RequestInReturnTo } from './about-request.ts'
import { AuthorizeRefusal, checkAuthorizeRequest } from './checks.ts'

const purposeOf = (returnTo: ReturnTo): string => `choose-account\n${returnTo.url}`

async function showChoice({
  c,
  deps,
  session,
  target: returnTo,
}: PageCall<'any', RequestInReturnTo>): Promise<Response> {
  const request = await checkAuthorizeRequest(deps, returnTo.search).catch((error: unknown) => {
    if (error instanceof AuthorizeRefusal) return undefined
    throw error
  })
  if (!request) return redirect(c, returnTo.url)
  return answerPage(c, deps, {
    title: 'Choose an account',
    formAction: formActionSource(request.redirectUri),
    content: html`
      <p class="soft">to continue to <strong>${request.client.name}</strong></p>
      <form method="post" action="${deps.accountUrl}/choose-account">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(returnTo))}" />
        <input type="hidden" name="returnTo" value="${returnTo.url}" />
        <button type="submit" name="decision" value="continue">Continue as ${session.user.email}</button>
        <button type="submit" name="decision" value="switch" class="second">Use another account</button>
      </form>
    `,
  })
}

const answer = z.object({ decision: textField })

async function choose({
  c,
  deps,
  session,
  target: returnTo,
  form,
}: FormCall<'any', typeof answer, RequestInReturnTo>): Promise<Response> {
  if (form.decision !== 'continue') return redirectToSignIn(c, deps, returnTo)
  await noteAnswer(deps, session.id, hashRequest(returnTo.search), 'chose-account')
  return redirect(c, returnTo.url)
}

/** The page of `prompt=select_account`. */
export const chooseAccountPage = page({
  path: '/choose-account',
  ...aboutRequest,
  show: showChoice,
  form: answer,
  csrf: ({ target }) => purposeOf(target),
  submit: choose,
})
