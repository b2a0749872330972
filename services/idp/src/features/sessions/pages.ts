import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../site/csrf.ts'
import { moment } from '../../site/moment.ts'
import { answerPage, type Markup, pageEndpoint } from '../../site/answer-page.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { returnToPage } from '../../site/return-to.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import {
  endSession,
  endSessionOf,
  findSession,
  type ListedSession,
  listSessions,
  type Session,
  SESSIONS_LISTED_MAX,
  signOutEverywhere,
} from './sessions.ts'

const END_ALL = 'end-all-sessions'
const purposeOfEnd = (sessionId: string): string => `end-session\n${sessionId}`

function sessionItem(deps: Deps, current: Session, session: ListedSession): Markup {
  const isCurrent = session.id === current.id
  const browser = describeBrowser(session.userAgent)
  return html`<li>
    <h2>
      <span title="${session.userAgent ?? ''}">${browser}</span
      >${isCurrent ? html`<span class="mark">This browser</span>` : ''}
    </h2>
    <dl>
      <dt>Address</dt>
      <dd>${session.address ?? 'Not known'}</dd>
      <dt>Signed in</dt>
      <dd>${moment(session.createdAt)}</dd>
      <dt>Last seen</dt>
      <dd>${isCurrent ? 'Now' : moment(session.lastSeenAt)}</dd>
    </dl>
    ${
      isCurrent
        ? ''
        : html`<form method="post" action="${deps.accountUrl}/sessions/end">
            <input type="hidden" name="csrf" value="${csrfOfSession(current, purposeOfEnd(session.id))}" />
            <input type="hidden" name="session" value="${session.id}" />
            <button type="submit" class="second small" aria-label="End session of ${browser}">End session</button>
          </form>`
    }
  </li>`
}

/** GET {account_url}/sessions: where the user is signed in. */
async function showSessions(c: Ctx, deps: Deps): Promise<Response> {
  const current = await findSession(c, deps)
  if (!current) return redirectToSignIn(c, deps, returnToPage(deps, 'sessions'))
  const listed = await listSessions(deps, current.user.id)
  const own = listed.filter(({ id }) => id === current.id)
  const others = listed.filter(({ id }) => id !== current.id)
  return answerPage(c, deps, {
    title: 'Active sessions',
    content: html`
      <p class="soft">
        ${others.length === 0 ? 'You are signed in here and nowhere else.' : 'You are signed in with these browsers.'}
        ${
          others.length === 0
            ? ''
            : 'Ending a session also disconnects the applications and devices that were connected in it.'
        }
        ${listed.length === SESSIONS_LISTED_MAX ? `Only the ${SESSIONS_LISTED_MAX} that were used last are shown.` : ''}
      </p>
      <ul class="items">
        ${[...own, ...others].map((session) => sessionItem(deps, current, session))}
      </ul>
      <form method="post" action="${deps.accountUrl}/sessions/end-all">
        <input type="hidden" name="csrf" value="${csrfOfSession(current, END_ALL)}" />
        <p class="soft">
          Lost a device, or seen something strange? End every session, this one too, and sign out all applications.
        </p>
        <button type="submit">Sign out everywhere</button>
      </form>
      <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>
    `,
  })
}

async function endOne(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const session = await findSession(c, deps)
  if (!session) return redirectToSignIn(c, deps, returnToPage(deps, 'sessions'))
  const sessionId = form.get('session') ?? ''
  requireCsrfOfSession(c, deps, form, session, purposeOfEnd(sessionId))
  if (isUuid(sessionId)) await endSessionOf(deps, { userId: session.user.id, sessionId })
  return redirect(c, `${deps.accountUrl}/sessions`)
}

async function endAll(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const session = await findSession(c, deps)
  if (!session) return redirectToSignIn(c, deps, returnToPage(deps, 'sessions'))
  requireCsrfOfSession(c, deps, form, session, END_ALL)
  await signOutEverywhere(deps, session.user.id)
  await endSession(c, deps)
  return answerPage(c, deps, {
    title: 'You are signed out everywhere',
    content: html`<p>Every session of your account has ended, and applications have to ask you to sign in again.</p>
      <p class="soft">What an application is doing right now can go on for up to five minutes.</p>
      <p><a href="${deps.accountUrl}/sign-in">Sign in again</a></p>`,
  })
}

export const sessionsEndpoints = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint[] => [
  pageEndpoint(`${accountPath}/sessions`, { GET: showSessions }),
  pageEndpoint(`${accountPath}/sessions/end`, { POST: endOne }),
  pageEndpoint(`${accountPath}/sessions/end-all`, { POST: endAll }),
]
