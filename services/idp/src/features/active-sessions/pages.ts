import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { foldedRows } from '../../site/folded-rows.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import type { Session } from '../../site/session.ts'
import { endOtherSessions, endSessionOf, signOutEverywhere } from '../access/end-access.ts'
import { endSession, type ListedSession, listSessions, SESSIONS_LISTED_MAX } from '../sessions/sessions.ts'

const END_ALL = 'end-all-sessions'
const END_OTHERS = 'end-other-sessions'
/** Further groups are folded away. */
const SHOWN_MAX = 10
const purposeOfEnd = (sessionId: string): string => `end-session\n${sessionId}`

function sessionItem(deps: Deps, current: Session, browser: string, session: ListedSession): Markup {
  const { id, address, createdAt, lastSeenAt } = session
  const time = deps.now()
  return html`<li>
    <p>
      ${address ?? 'Address not known'}<br />
      <span class="soft">Last seen ${moment(lastSeenAt, time)}, signed in ${moment(createdAt, time)}</span>
    </p>
    <form method="post" action="${deps.accountUrl}/sessions/end">
      <input type="hidden" name="csrf" value="${csrfOfSession(current, purposeOfEnd(id))}" />
      <input type="hidden" name="session" value="${id}" />
      <button
        type="submit"
        class="second small"
        aria-label="End session of ${browser}${address === null ? '' : `, ${address}`}"
      >
        End session
      </button>
    </form>
  </li>`
}

/** Sessions of one browser on one system, the one that was seen last first. */
function groupItem(deps: Deps, current: Session, [browser, sessions]: [string, ListedSession[]]): Markup {
  const [newest] = sessions
  return html`<li>
    <details>
      <summary class="row">
        <span class="name" title="${newest?.userAgent ?? ''}">${browser}</span>
        <span>${newest && moment(newest.lastSeenAt, deps.now(), { isInside: true })}</span>
        <span class="note"
          >${sessions.length === 1 ? '1 session' : `${sessions.length} sessions`},
          ${newest?.address ?? 'address not known'}</span
        >
      </summary>
      <ul class="entries">
        ${sessions.map((session) => sessionItem(deps, current, browser, session))}
      </ul>
    </details>
  </li>`
}

const currentItem = (deps: Deps, { userAgent, address, createdAt }: ListedSession): Markup =>
  html`<li>
    <div class="row">
      <span class="name" title="${userAgent ?? ''}">${describeBrowser(userAgent)}</span>
      <span><span class="badge good">This browser</span></span>
      <span class="note">${address ?? 'Address not known'}, signed in ${moment(createdAt, deps.now())}</span>
    </div>
  </li>`

/** Shows where the user is signed in: this browser, then the others by browser and system, as they were seen last. */
async function showSessions({ c, deps, session: current }: PageCall<'any'>): Promise<Response> {
  const listed = await listSessions(deps, current.user.id)
  const own = listed.filter(({ id }) => id === current.id)
  const others = listed.filter(({ id }) => id !== current.id)
  const groups = Map.groupBy(others, ({ userAgent }) => describeBrowser(userAgent))
  return answerPage(c, deps, {
    title: 'Active sessions',
    isWide: true,
    hasScript: true,
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
      ${foldedRows(
        [
          ...own.map((session) => currentItem(deps, session)),
          ...[...groups].map((group) => groupItem(deps, current, group)),
        ],
        { shownMax: SHOWN_MAX, noun: 'browsers' },
      )}
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
