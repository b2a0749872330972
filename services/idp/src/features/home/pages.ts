import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { page, type PageCall } from '../../site/page.ts'
import type { Session } from '../../site/session.ts'
import { type AccountState, readAccountState } from './account-state.ts'

/** What is worth doing next, the weightiest of what is missing. */
function nextStep({ accountUrl, mailer }: Deps, { user }: Session, state: AccountState): Markup | '' {
  const step = (words: string, path: string, link: string) =>
    html`<p class="next"><span>${words}</span> <a href="${accountUrl}/${path}">${link}</a></p>`
  if (state.passkeys === 0 && !state.hasAuthenticator)
    return step(
      state.hasPassword ? 'Only a password protects your account.' : 'Nothing signs you in again yet.',
      'passkeys/add',
      'Add a passkey',
    )
  if (!user.emailVerified && mailer) return step('Your address is not confirmed yet.', 'email', 'Confirm it')
  if (state.hasAuthenticator && state.recoveryCodes === 0)
    return step('You have no recovery codes left.', 'authenticator', 'Make new ones')
  return ''
}

const passkeysOf = (count: number): string => (count === 0 ? 'None' : String(count))
const codesOf = (left: number): string => (left === 1 ? '1 recovery code left' : `${left} recovery codes left`)

async function showHome({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const { user } = session
  const state = await readAccountState(deps, session)
  const time = deps.now()
  const name = [user.givenName, user.familyName].filter((part) => part !== null).join(' ')
  const row = (path: string, label: string, value: string | number, note: Markup | '' | null = null) =>
    html`<li>
      <a class="row" href="${deps.accountUrl}/${path}"
        ><span class="name">${label}</span> <span>${value}</span> ${note && html`<span class="note">${note}</span>`}</a
      >
    </li>`
  const { otherSession, lastApplication } = state
  return answerPage(c, deps, {
    title: name === '' ? 'Your account' : name,
    isWide: true,
    hasScript: true,
    content: html`<p class="soft">
        ${user.email}
        ${user.emailVerified ? '' : html`<a class="badge" href="${deps.accountUrl}/email">Not confirmed yet</a>`}
      </p>
      ${nextStep(deps, session, state)}
      <nav aria-label="Your account">
        <h2>Ways in</h2>
        <ul class="rows">
          ${row(state.hasPassword ? 'password' : 'forgot-password', 'Password', state.hasPassword ? 'Set' : 'Not set')}
          ${row('passkeys', 'Passkeys', passkeysOf(state.passkeys))}
          ${row('authenticator', 'Authenticator app', state.hasAuthenticator ? codesOf(state.recoveryCodes) : 'Off')}
        </ul>
        <h2>What uses your account</h2>
        <ul class="rows">
          ${row(
            'sessions',
            'Active sessions',
            state.sessions,
            otherSession
              ? html`Besides this one, ${describeBrowser(otherSession.userAgent)} was used last,
                ${moment(otherSession.lastSeenAt, time, { isInside: true })}`
              : html`This browser alone`,
          )}
          ${row(
            'applications',
            'Connected applications',
            state.applications,
            lastApplication &&
              html`${lastApplication.name} was used last,
              ${moment(lastApplication.lastUsedAt, time, { isInside: true })}`,
          )}
          ${row('device', 'Connect a device', '')}
        </ul>
      </nav>`,
  })
}

export const homePage = page({
  path: '/',
  session: 'any',
  // Sign-in leads here by default.
  back: ({ c, deps }) => redirect(c, `${deps.accountUrl}/sign-in`),
  show: showHome,
})
