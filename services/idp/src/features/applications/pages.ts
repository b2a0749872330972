import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { foldedRows } from '../../site/folded-rows.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import type { Session } from '../../site/session.ts'
import { scopeList, weightiestOf } from '../consents/scope-list.ts'
import { type Application, type Connection, cutOff, disconnectApplication, listApplications } from './applications.ts'

/** Further applications are folded away. */
const SHOWN_MAX = 7
/** The scopes that a folded application shows. */
const SCOPES_SHOWN = 3

const purposeOf = (clientId: string): string => `disconnect\n${clientId}`
const purposeOfCut = (familyId: string): string => `cut-off\n${familyId}`

const connectionsOf = (count: number): string => (count === 1 ? '1 connection' : `${count} connections`)

function connectionItem(deps: Deps, session: Session, name: string, connection: Connection): Markup {
  const { familyId, machine, userAgent, address, count, since, lastUsedAt } = connection
  const time = deps.now()
  return html`<li>
    <p>
      <span class="name" title="${userAgent ?? ''}">${machine}</span
      >${count === 1 ? '' : html`, ${connectionsOf(count)}`}
      <br />
      <span class="soft"
        >${address ?? 'Address not known'}, used ${moment(lastUsedAt, time)}, connected ${moment(since, time)}</span
      >
    </p>
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

function connectionList(
  deps: Deps,
  session: Session,
  { name, connections, connectionCount }: Application,
): Markup | '' {
  if (connectionCount === 0) return ''
  const listed = connections.reduce((sum, { count }) => sum + count, 0)
  return html`<h2>Stays connected with</h2>
    <ul class="entries">
      ${connections.map((connection) => connectionItem(deps, session, name, connection))}
    </ul>
    ${
      connectionCount > listed
        ? html`<p class="note">
            These were used last, of ${connectionCount} in all. Disconnecting the application ends every one.
          </p>`
        : ''
    }`
}

function applicationItem(deps: Deps, session: Session, application: Application): Markup {
  const { clientId, name, scopes, since, lastUsedAt, connectionCount } = application
  const weightiest = weightiestOf(scopes)
  const more = weightiest.length - SCOPES_SHOWN
  const time = deps.now()
  return html`<li>
    <details>
      <summary class="row">
        <span class="name">${name}</span>
        <span>${lastUsedAt ? moment(lastUsedAt, time, { isInside: true }) : 'No connection'}</span>
        <span class="note"
          >${connectionCount > 0 ? `${connectionsOf(connectionCount)}. ` : ''}${weightiest
            .slice(0, SCOPES_SHOWN)
            .join(' · ')}${more > 0 ? ` · ${more} more` : ''}</span
        >
      </summary>
      <p class="note">Connected ${moment(since, time)}.</p>
      <h2>What it is able to do</h2>
      ${scopeList(scopes)} ${connectionList(deps, session, application)}
      <form method="post" action="${deps.accountUrl}/applications/disconnect">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(clientId))}" />
        <input type="hidden" name="client_id" value="${clientId}" />
        <button type="submit" class="second small">Disconnect ${name}</button>
      </form>
    </details>
  </li>`
}

/** Shows the clients with access to the account. */
async function showApplications({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const applications = await listApplications(deps, session.user.id)
  return answerPage(c, deps, {
    title: 'Connected applications',
    isWide: true,
    hasScript: true,
    content: html`
      ${
        applications.length === 0
          ? html`<p class="empty">No application is connected to your account.</p>`
          : html`<p class="soft">
                These may use your account. One that you disconnect notices within five minutes, and has to ask you
                again.
              </p>
              ${foldedRows(
                applications.map((application) => applicationItem(deps, session, application)),
                { shownMax: SHOWN_MAX, noun: 'applications' },
              )}`
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

/** Ends a connection of the user and those that look like it. Any other id leads to the list just the same. */
async function cutOffOne({ c, deps, session, form }: FormCall<'any', typeof chosenConnection>): Promise<Response> {
  const familyId = form.connection
  if (isUuid(familyId)) await cutOff(deps, { userId: session.user.id, familyId })
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
    submit: cutOffOne,
  }),
]
