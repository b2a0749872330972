import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../site/csrf.ts'
import { answerPage, pageEndpoint } from '../../site/answer-page.ts'
import { AuthorizeRefusal, checkAuthorizeRequest } from '../authorize/checks.ts'
import { decideAuthorize } from '../authorize/decide.ts'
import { redirectRefusal, redirectWithCode } from '../authorize/redirects.ts'
import { redirect } from '../../site/navigation.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { formActionSource, isNativeRedirectUri } from '../clients/redirect-uri.ts'
import { findSession } from '../sessions/sessions.ts'
import { grantConsent } from './consents.ts'
import { scopeList } from './scope-list.ts'
import { whoAsks } from './who-asks.ts'

const purposeOf = (returnTo: ReturnTo): string => `consent\n${returnTo.url}`

async function showConsent(c: Ctx, deps: Deps): Promise<Response> {
  const returnTo = readReturnTo(deps, c.req.query('returnTo'))
  const session = await findSession(c, deps)
  // Whatever is not ready for the question starts again where it is decided.
  if (returnTo.kind !== 'authorize' || !session) return redirect(c, returnTo.url)
  const { client, redirectUri, scopes } = await checkAuthorizeRequest(deps, returnTo.search).catch((error: unknown) => {
    if (error instanceof AuthorizeRefusal) return { client: null, redirectUri: '', scopes: [] }
    throw error
  })
  if (client === null) return redirect(c, returnTo.url)
  return answerPage(c, deps, {
    title: `Connect ${client.name}?`,
    formAction: formActionSource(redirectUri),
    content: html`
      <p><strong>${client.name}</strong> wants to use your account <strong>${session.user.email}</strong>.</p>
      <dl>
        ${whoAsks(client)}
        <dt>Leads to</dt>
        <dd>${isNativeRedirectUri(redirectUri, client) ? 'A program on this machine' : new URL(redirectUri).host}</dd>
      </dl>
      <h2>It would be able to</h2>
      ${scopeList(scopes)}
      <form method="post" action="${deps.accountUrl}/consent">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(returnTo))}" />
        <input type="hidden" name="returnTo" value="${returnTo.url}" />
        <div class="buttons">
          <button type="submit" name="decision" value="deny" class="second">Deny</button>
          <button type="submit" name="decision" value="approve">Allow</button>
        </div>
      </form>
      <p><a href="${deps.accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}">Use another account</a></p>
    `,
  })
}

async function decideConsent(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const returnTo = readReturnTo(deps, form.get('returnTo'))
  const session = await findSession(c, deps)
  if (returnTo.kind !== 'authorize' || !session) return redirect(c, returnTo.url)
  requireCsrfOfSession(c, deps, form, session, purposeOf(returnTo))
  try {
    const request = await checkAuthorizeRequest(deps, returnTo.search)
    c.set('clientId', request.client.id)
    if (form.get('decision') !== 'approve')
      throw new AuthorizeRefusal(request, 'access_denied', 'The user denied the request')
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

export const consentEndpoint = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint =>
  pageEndpoint(`${accountPath}/consent`, { GET: showConsent, POST: decideConsent })
