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
import { endOtherSessions, endSessionOf, signOutEverywhere } from '../access/end-access.ts'
import { endSession, type ListedSession, listSessions, SESSIONS_LISTED_MAX } from '../sessions/sessions.ts'

const END_ALL = 'end-all-sessions'
const END_OTHERS = 'end-other-sessions'
/** Further sessions are folded away, so that the button that ends all of them is not far down. */
const SHOWN_MAX = 10
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

/** Shows where the user is signed in. */
async function showSessions({ c, deps, session: current }: PageCall<'any'>): Promise<Response> {
  const listed = await listSessions(deps, current.user.id)
  const own = listed.filter(({ id }) => id === current.id)
  const others = listed.filter(({ id }) => id !== current.id)
  const sorted = [...own, ...others]
  // One more session is no longer than the line that would fold it.
  const isFolded = sorted.length > SHOWN_MAX + 1
  const [shown, folded] = isFolded ? [sorted.slice(0, SHOWN_MAX), sorted.slice(SHOWN_MAX)] : [sorted, []]
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
        ${shown.map((session) => sessionItem(deps, current, session))}
      </ul>
      ${
        folded.length === 0
          ? ''
          : html`<details>
              <summary>${folded.length === 1 ? '1 more session' : `${folded.length} more sessions`}</summary>
              <ul class="items">
                ${folded.map((session) => sessionItem(deps, current, session))}
              </ul>
            </details>`
      }
      ${
        others.length < 2
          ? ''
          : html`<form method="post" action="${deps.accountUrl}/sessions/end-others">
              <input type="hidden" name="csrf" value="${csrfOfSession(current, END_OTHERS)}" />
              <button type="submit" class="second">End all other sessions</button>
            </form>`
      }
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

async function endOne({ c, deps, session, form }: FormCall<'any', typeof chosen>): Promise<Response> {
  const sessionId = form.session
  if (isUuid(sessionId)) await endSessionOf(deps, { userId: session.user.id, sessionId })
  return redirect(c, `${deps.accountUrl}/sessions`)
}

async function endOthers({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  await endOtherSessions(deps, { userId: session.user.id, sessionId: session.id })
  return redirect(c, `${deps.accountUrl}/sessions`)
}

async function endAll({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  await signOutEverywhere(deps, session.user.id)
  await endSession(c, deps)
  return answerPage(c, deps, {
    title: 'You are signed out everywhere',
    content: html`<p>Every session of your account has ended, and applications have to ask you to sign in again.</p>
      <p class="soft">What an application is doing right now can go on for up to five minutes.</p>
      <p><a href="${deps.accountUrl}/sign-in">Sign in again</a></p>`,
  })
}

const chosen = z.object({ session: textField })

export const sessionsPages = [
  page({ path: '/sessions', session: 'any', back: 'sessions', show: showSessions }),
  page({
    path: '/sessions/end',
    session: 'any',
    back: 'sessions',
    form: chosen,
    csrf: ({ field }) => purposeOfEnd(field('session') ?? ''),
    submit: endOne,
  }),
  page({
    path: '/sessions/end-others',
    session: 'any',
    back: 'sessions',
    form: z.object({}),
    csrf: END_OTHERS,
    submit: endOthers,
  }),
  page({
    path: '/sessions/end-all',
    session: 'any',
    back: 'sessions',
    form: z.object({}),
    csrf: END_ALL,
    submit: endAll,
  }),
]
