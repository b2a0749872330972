import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import type { Session } from '../../site/session.ts'
import { scopeList } from '../consents/scope-list.ts'
import { revokeFamily } from '../refresh/families.ts'
import { type Application, type Connection, disconnectApplication, listApplications } from './applications.ts'

/** Longer lists of scopes start folded. */
const SCOPES_OPEN_MAX = 6

const purposeOf = (clientId: string): string => `disconnect\n${clientId}`
const purposeOfCut = (familyId: string): string => `cut-off\n${familyId}`

function connectionItem(deps: Deps, session: Session, name: string, connection: Connection): Markup {
  const { familyId, userAgent, address, since, lastUsedAt } = connection
  const machine = userAgent === null ? 'A machine' : describeBrowser(userAgent)
  return html`<li>
    <strong title="${userAgent ?? ''}">${machine}</strong>
    <dl>
      <dt>Address</dt>
      <dd>${address ?? 'Not known'}</dd>
      <dt>Connected</dt>
      <dd>${moment(since)}</dd>
      <dt>Last used</dt>
      <dd>${moment(lastUsedAt)}</dd>
    </dl>
    <form method="post" action="${deps.accountUrl}/applications/cut-off">
      <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOfCut(familyId))}" />
      <input type="hidden" name="connection" value="${familyId}" />
      <button
        type="submit"
        class="second small"
        aria-label="Cut off ${machine}${address === null ? '' : `, ${address}`}, from ${name}"
      >
        Cut off
      </button>
    </form>
  </li>`
}

function connectionList(deps: Deps, session: Session, application: Application): Markup | '' {
  const { name, connections, connectionCount } = application
  if (connectionCount === 0) return ''
  return html`<h3>Stays connected with</h3>
    <ul class="machines">
      ${connections.map((connection) => connectionItem(deps, session, name, connection))}
    </ul>
    ${
      connectionCount > connections.length
        ? html`<p class="soft">
            These were used last, of ${connectionCount} in all. Disconnecting the application ends every one.
          </p>`
        : ''
    }`
}

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
    ${connectionList(deps, session, application)}
    <form method="post" action="${deps.accountUrl}/applications/disconnect">
      <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(clientId))}" />
      <input type="hidden" name="client_id" value="${clientId}" />
      <button type="submit" class="second small">Disconnect ${name}</button>
    </form>
  </li>`
}

/** Shows the clients with access to the account. */
async function showApplications({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const applications = await listApplications(deps, session.user.id)
  return answerPage(c, deps, {
    title: 'Connected applications',
    content: html`
      ${
        applications.length === 0
          ? html`<p class="empty">No application is connected to your account.</p>`
          : html`<p class="soft">
                These may use your account. One that you disconnect notices within five minutes, and has to ask you
                again. What stays connected on several machines can be cut off from one of them alone.
              </p>
              <ul class="items">
                ${applications.map((application) => applicationItem(deps, session, application))}
              </ul>`
      }
      <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>
    `,
  })
}

const chosenApplication = z.object({ client_id: textField })
const chosenConnection = z.object({ connection: textField })

async function disconnect({ c, deps, session, form }: FormCall<'any', typeof chosenApplication>): Promise<Response> {
  const clientId = form.client_id
  if (isUuid(clientId)) await disconnectApplication(deps, { userId: session.user.id, clientId })
  return redirect(c, `${deps.accountUrl}/applications`)
}

/** Ends one connection of the user. Any other id leads to the list just the same. */
async function cutOff({ c, deps, session, form }: FormCall<'any', typeof chosenConnection>): Promise<Response> {
  const familyId = form.connection
  const userId = session.user.id
  if (isUuid(familyId)) await revokeFamily(deps, { familyId, userId }, `user:${userId}`, 'cut off by its user')
  return redirect(c, `${deps.accountUrl}/applications`)
}

export const applicationsPages = [
  page({ path: '/applications', session: 'any', back: 'applications', show: showApplications }),
  page({
    path: '/applications/disconnect',
    session: 'any',
    back: 'applications',
    form: chosenApplication,
    csrf: ({ field }) => purposeOf(field('client_id') ?? ''),
    submit: disconnect,
  }),
  page({
    path: '/applications/cut-off',
    session: 'any',
    back: 'applications',
    form: chosenConnection,
    csrf: ({ field }) => purposeOfCut(field('connection') ?? ''),
    submit: cutOff,
  }),
]
