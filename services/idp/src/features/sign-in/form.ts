import { html } from 'hono/html'
import { answerPage } from '../../site/answer-page.ts'
import { cookieBeforeSession, csrfBeforeSession } from '../../site/csrf.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { type PageCall, textField } from '../../site/page.ts'
import { asksForFreshness, readInvitationOf, type ReturnTo } from '../../site/return-to.ts'
import { findWaitingClient } from '../authorize/waiting-client.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import { passkeyForm } from '../passkeys/passkey-form.ts'
import { describePasskeyRequest } from '../passkeys/passkeys.ts'

export interface Form {
  email: string
  /** The choice of the last attempt; at first that of the current session, or else to stay. */
  staysSignedIn?: boolean
  /** Why the last attempt failed. */
  problem?: string
  /** The password was refused: the problem stands at its field. Which of the two fields is wrong is not said. */
  isPasswordRefused?: boolean
  status?: 200 | 401 | 403 | 429 | 503
}

/** The purpose of the CSRF tokens of the page's forms. */
export const signInPurpose = (returnTo: ReturnTo): string => `sign-in\n${returnTo.url}`

export const SUSPENDED = 'This account is suspended. Ask whoever runs this service.'

/** The checkbox `Stay signed in`; browsers omit it if it is not ticked. */
export const staysField = textField.transform((value) => value === 'on')

/** The sign-in page: a password, or a passkey, which the script offers if the browser supports them. */
export async function answerSignIn(
  { c, deps, target: returnTo, findSession }: PageCall<'none', ReturnTo>,
  { email, staysSignedIn, problem, isPasswordRefused = false, status = 200 }: Form,
): Promise<Response> {
  const waiting = await findWaitingClient(deps, returnTo)
  const session = await findSession()
  const isAgain = session !== undefined && asksForFreshness(deps, returnTo)
  const stays = staysSignedIn ?? session?.staysSignedIn ?? true
  const csrf = csrfBeforeSession(c, deps, signInPurpose(returnTo))
  const hidden = html`<input type="hidden" name="csrf" value="${csrf}" />
    <input type="hidden" name="returnTo" value="${returnTo.url}" />`
  return answerPage(c, deps, {
    title: 'Sign in',
    status,
    hasScript: true,
    formAction: waiting && formActionSource(waiting.redirectUri),
    content: html`
      ${
        waiting
          ? html`<p class="soft">to continue to <strong>${waiting.client.name}</strong></p>`
          : html`<p class="soft">
              ${isAgain ? 'once more, so that nobody else changes how you sign in' : 'to your account'}
            </p>`
      }
      ${problem === undefined || isPasswordRefused ? '' : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
      <form method="post" action="${deps.accountUrl}/sign-in">
        ${hidden}
        <label>
          Email
          <input
            type="email"
            name="email"
            value="${email}"
            autocomplete="username webauthn"
            required
            maxlength="320"
            ${email === '' && !isPasswordRefused ? html`autofocus` : ''}
          />
        </label>
        <div class="field">
          <label>
            Password
            <input
              type="password"
              name="password"
              autocomplete="current-password"
              required
              ${fieldProblem(isPasswordRefused ? { status } : undefined)}
              ${email === '' && !isPasswordRefused ? '' : html`autofocus`}
            />
          </label>
          ${isPasswordRefused ? html`<p class="wrong" role="alert" id="problem">${problem}</p>` : ''}
        </div>
        <label class="choice">
          <input type="checkbox" name="stay" value="on" ${stays ? html`checked` : ''} />
          Stay signed in on this device
        </label>
        <button type="submit">Sign in</button>
      </form>
      ${passkeyForm({
        action: `${deps.accountUrl}/sign-in/passkey`,
        // The script copies the choice of the form above into it.
        hidden: html`${hidden}<input type="hidden" name="stay" value="${stays ? 'on' : ''}" />`,
        options: describePasskeyRequest(deps, { purpose: 'passkey-sign-in', cookie: cookieBeforeSession(c, deps) }),
        button: 'Sign in with a passkey',
        isAlternative: true,
      })}
      <p class="after"><a href="${deps.accountUrl}/forgot-password">Forgot your password?</a></p>
      ${
        deps.signUp.policy === 'closed' && readInvitationOf(returnTo) === undefined
          ? ''
          : html`<p>
              No account yet?
              <a href="${deps.accountUrl}/sign-up?returnTo=${encodeURIComponent(returnTo.url)}">Create one</a>
            </p>`
      }
    `,
  })
}
