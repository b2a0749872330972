import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../http/csrf.ts'
import { moment } from '../../http/moment.ts'
import { answerPage, type Markup, pageEndpoint } from '../../http/page.ts'
import { redirect, redirectToSignIn } from '../authorize/redirects.ts'
import { returnToPage } from '../authorize/return-to.ts'
import { isUuid } from '../clients/client.ts'
import { scopeList } from '../consents/scope-list.ts'
import { findSession, type Session } from '../sessions/sessions.ts'
import { type Application, disconnectApplication, listApplications } from './applications.ts'

/** A list of more than so many scopes is folded up at first. */
const SCOPES_OPEN_MAX = 6

const purposeOf = (clientId: string): string => `disconnect\n${clientId}`

function applicationItem(deps: Deps, session: Session, application: Application): Markup {
  const { clientId, name, scopes, since, lastUsedAt } = application
  return html`<li>
    <h2>${name}</h2>
    <dl>
      <dt>Connected</dt>
      <dd>${moment(since)}</dd>
      ${
        lastUsedAt &&
        html`<dt>Last used</dt>
          <dd>${moment(lastUsedAt)}</dd>`
      }
    </dl>
    <details ${scopes.length > SCOPES_OPEN_MAX ? '' : html`open`}>
      <summary>What it is able to do</summary>
      ${scopeList(scopes)}
    </details>
    <form method="post" action="${deps.accountUrl}/applications/disconnect">
      <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(clientId))}" />
      <input type="hidden" name="client_id" value="${clientId}" />
      <button type="submit" class="second small" aria-label="Disconnect ${name}">Disconnect</button>
    </form>
  </li>`
}

/** GET {account_url}/applications: which clients the user lets in. */
async function showApplications(c: Ctx, deps: Deps): Promise<Response> {
  const session = await findSession(c, deps)
  if (!session) return redirectToSignIn(c, deps, returnToPage(deps, 'applications'))
  const applications = await listApplications(deps, session.user.id)
  return answerPage(c, deps, {
    title: 'Connected applications',
    content: html`
      ${
        applications.length === 0
          ? html`<p class="empty">No application is connected to your account.</p>`
          : html`<p class="soft">
                These may use your account. One that you disconnect notices within five minutes, and has to ask you
                again.
              </p>
              <ul class="items">
                ${applications.map((application) => applicationItem(deps, session, application))}
              </ul>`
      }
      <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>
    `,
  })
}

async function disconnect(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const session = await findSession(c, deps)
  if (!session) return redirectToSignIn(c, deps, returnToPage(deps, 'applications'))
  const clientId = form.get('client_id') ?? ''
  requireCsrfOfSession(c, deps, form, session, purposeOf(clientId))
  if (isUuid(clientId)) await disconnectApplication(deps, { userId: session.user.id, clientId })
  return redirect(c, `${deps.accountUrl}/applications`)
}

export const applicationsEndpoints = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint[] => [
  pageEndpoint(`${accountPath}/applications`, { GET: showApplications }),
  pageEndpoint(`${accountPath}/applications/disconnect`, { POST: disconnect }),
]
