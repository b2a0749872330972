import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../site/csrf.ts'
import { answerPage, pageEndpoint } from '../../site/answer-page.ts'
import { AuthorizeRefusal, checkAuthorizeRequest } from '../authorize/checks.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { hashRequest, readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import { findSession, noteAnswer } from '../sessions/sessions.ts'

const purposeOf = (returnTo: ReturnTo): string => `choose-account\n${returnTo.url}`

async function showChoice(c: Ctx, deps: Deps): Promise<Response> {
  const returnTo = readReturnTo(deps, c.req.query('returnTo'))
  const session = await findSession(c, deps)
  if (returnTo.kind !== 'authorize' || !session) return redirect(c, returnTo.url)
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

async function choose(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const returnTo = readReturnTo(deps, form.get('returnTo'))
  const session = await findSession(c, deps)
  if (returnTo.kind !== 'authorize' || !session) return redirect(c, returnTo.url)
  requireCsrfOfSession(c, deps, form, session, purposeOf(returnTo))
  if (form.get('decision') !== 'continue') return redirectToSignIn(c, deps, returnTo)
  await noteAnswer(deps, session.id, hashRequest(returnTo.search), 'chose-account')
  return redirect(c, returnTo.url)
}

/** The page of `prompt=select_account`. */
export const chooseAccountEndpoint = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint =>
  pageEndpoint(`${accountPath}/choose-account`, { GET: showChoice, POST: choose })
