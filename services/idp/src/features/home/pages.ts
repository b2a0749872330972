import { html } from 'hono/html'
import { answerPage } from '../../site/answer-page.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { page, type PageCall } from '../../site/page.ts'

function showHome({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const { user } = session
  const name = [user.givenName, user.familyName].filter((part) => part !== null).join(' ')
  return answerPage(c, deps, {
    title: name === '' ? 'Your account' : name,
    content: html`<dl>
        <dt>Email</dt>
        <dd>
          ${user.email}
          ${user.emailVerified ? '' : html`<a class="mark" href="${deps.accountUrl}/email">Not confirmed yet</a>`}
        </dd>
        <dt>Signed in</dt>
        <dd>${moment(session.authTime)}</dd>
      </dl>
      <nav aria-label="Your account">
        <ul class="links">
          <li><a href="${deps.accountUrl}/sessions">Active sessions</a></li>
          <li><a href="${deps.accountUrl}/applications">Connected applications</a></li>
          <li><a href="${deps.accountUrl}/password">Change your password</a></li>
          <li><a href="${deps.accountUrl}/passkeys">Passkeys</a></li>
          <li><a href="${deps.accountUrl}/authenticator">Authenticator app</a></li>
          <li><a href="${deps.accountUrl}/device">Connect a device</a></li>
          <li><a href="${deps.accountUrl}/sign-out">Sign out</a></li>
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
