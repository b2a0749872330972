import { BadRequest } from '@platform/errors/api-error'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { redirectToSignIn } from '../../site/navigation.ts'
import { type FormCall, page, textField } from '../../site/page.ts'
import { returnToPage } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { sourceOf } from '../../site/source.ts'
import { usernameField } from '../../site/username-field.ts'
import { isTooBusy } from '../accounts/passwords.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { passwordProof, passwordStampOf } from '../sessions/proof.ts'
import { startSession } from '../sessions/sessions.ts'
import { changePassword } from './change-password.ts'
import { newPasswordFields } from './new-password-fields.ts'

const PURPOSE = 'password'

interface Problem {
  text: string
  status: 400 | 401 | 429 | 503
}

function answerForm(c: Ctx, deps: Deps, session: Session, problem?: Problem): Promise<Response> {
  const isOfNew = problem?.status === 400
  return answerPage(c, deps, {
    title: 'Change your password',
    status: problem?.status ?? 200,
    hasScript: true,
    content: html`
      <p class="soft">Every other session ends with it, and applications have to ask you to sign in again.</p>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/password">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, PURPOSE)}" />
        ${usernameField(session.user.email)}
        <label>
          Current password
          <input
            type="password"
            name="current"
            autocomplete="current-password"
            required
            autofocus
            ${fieldProblem(isOfNew ? undefined : problem)}
          />
        </label>
        ${newPasswordFields(isOfNew ? problem : undefined)}
        <button type="submit">Change password</button>
      </form>
      <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>
    `,
  })
}

const passwords = z.object({ current: textField, new: textField, again: textField })

/** All sessions end; this browser continues in a new one, under a new cookie. */
async function change({ c, deps, session, form }: FormCall<'any', typeof passwords>): Promise<Response> {
  if (form.new !== form.again)
    return answerForm(c, deps, session, { text: 'The new password and its repetition are not the same.', status: 400 })

  let changed
  try {
    changed = await changePassword(deps, {
      user: session.user,
      currentPassword: form.current,
      newPassword: form.new,
      source: sourceOf(c, deps),
      knownBrowser: readCookie(c, deps, 'known'),
    })
  } catch (error) {
    if (error instanceof BadRequest) return answerForm(c, deps, session, { text: `${error.message}.`, status: 400 })
    if (!isTooBusy(error)) throw error
    c.header('retry-after', '5')
    return answerForm(c, deps, session, { text: `${error.message}.`, status: 503 })
  }
  if (changed.kind === 'paused')
    return answerForm(c, deps, session, { text: tellPause(c, changed.waitSeconds), status: 429 })
  if (changed.kind === 'refused')
    return answerForm(c, deps, session, { text: 'The current password is not right.', status: 401 })
  const { passwordHash } = changed
  const started = await startSession(c, deps, {
    userId: session.user.id,
    proof: passwordProof(passwordStampOf(passwordHash)),
    // A second factor used at sign-in was proven then, not now.
    amr: session.amr,
    ways: undefined,
    authTime: session.authTime,
    answeredRequest: null,
    staysSignedIn: session.staysSignedIn,
  })
  if (started !== 'started') return redirectToSignIn(c, deps, returnToPage(deps, 'password'))
  return answerPage(c, deps, {
    title: 'Password changed',
    content: html`<p>You are signed in here with the new one. Every other session has ended.</p>
      <p><a href="${deps.accountUrl}/">Go to your account</a></p>`,
  })
}

export const passwordPage = page({
  path: '/password',
  session: 'any',
  back: 'password',
  show: ({ c, deps, session }) => answerForm(c, deps, session),
  form: passwords,
  csrf: PURPOSE,
  submit: change,
})
