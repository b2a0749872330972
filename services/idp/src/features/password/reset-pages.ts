import { BadRequest } from '@platform/errors/api-error'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { addressOf, type Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { csrfBeforeSession } from '../../site/csrf.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { usernameField } from '../../site/username-field.ts'
import { isTooBusy } from '../accounts/passwords.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { rememberBrowser } from '../known-browsers/known-browser.ts'
import { findLinkOwner } from '../links/one-time-links.ts'
import { newPasswordFields } from './new-password-fields.ts'
import { askForReset, resetPassword } from './reset-password.ts'

const ASK = 'forgot-password'
const purposeOf = (token: string): string => `set-password\n${token}`

function showForgot({ c, deps }: PageCall<'none'>): Promise<Response> {
  const back = html`<p class="back"><a href="${deps.accountUrl}/sign-in">Back to sign-in</a></p>`
  return answerPage(c, deps, {
    title: 'Forgot your password?',
    content: deps.mailer
      ? html`
          <p class="soft">Tell us your email address, and we mail you a link to choose a new one.</p>
          <form method="post" action="${deps.accountUrl}/forgot-password">
            <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, ASK)}" />
            <label>
              Email
              <input type="email" name="email" autocomplete="username" required maxlength="320" autofocus />
            </label>
            <button type="submit">Mail me a link</button>
          </form>
          ${back}
        `
      : html`<p>This service sends no mail. Ask whoever runs it for a link to choose a new password.</p>
          ${back}`,
  })
}

/** Gives everyone the same answer, before anything is looked up. */
async function ask(call: FormCall<'none', typeof address>): Promise<Response> {
  const { c, deps, form } = call
  if (!deps.mailer) return showForgot(call)
  const { email } = form
  const answer = await askForReset(deps, deps.mailer, { email, address: addressOf(c, deps) })
  if (answer.kind === 'paused')
    return answerPage(c, deps, {
      title: 'Too many attempts',
      status: 429,
      content: html`<p>${tellPause(c, answer.waitSeconds, 'Many links were asked for from your network')}</p>
        <p><a href="${deps.accountUrl}/sign-in">Back to sign-in</a></p>`,
    })
  return answerPage(c, deps, {
    title: 'Look into your inbox',
    content: html`<p>If there is an account for <strong>${email}</strong>, a link is on its way there.</p>
      <p class="soft">
        It works once, and for 30 minutes. Nothing there after a few minutes? Look among unwanted mail, and check that
        this is the address of your account.
      </p>
      <p class="back"><a href="${deps.accountUrl}/sign-in">Back to sign-in</a></p>`,
  })
}

function answerGone(c: Ctx, deps: Deps): Promise<Response> {
  return answerPage(c, deps, {
    title: 'This link no longer works',
    status: 400,
    content: html`<p>It was used already, or its 30 minutes are over.</p>
      <p><a href="${deps.accountUrl}/forgot-password">Ask for another link</a></p>`,
  })
}

function answerForm(
  c: Ctx,
  deps: Deps,
  { token, email }: { token: string; email: string },
  problem?: { text: string; status: 400 | 503 },
): Promise<Response> {
  return answerPage(c, deps, {
    title: 'Choose a new password',
    status: problem?.status ?? 200,
    hasScript: true,
    content: html`
      <p class="soft">For <strong>${email}</strong>. Every session ends with it, here and elsewhere.</p>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/set-password">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(token))}" />
        <input type="hidden" name="token" value="${token}" />
        ${usernameField(email)} ${newPasswordFields(problem)}
        <button type="submit">Save password</button>
      </form>
    `,
  })
}

/** The target of a link that was mailed, or handed over by the operator. */
async function showSetPassword({ c, deps, field }: PageCall<'none'>): Promise<Response> {
  const token = field('token') ?? ''
  const owner = await findLinkOwner(deps, 'set-password', token)
  return owner ? answerForm(c, deps, { token, email: owner.email }) : answerGone(c, deps)
}

/** Does not sign in: users with a second factor still have to use it. */
async function setPassword({ c, deps, form }: FormCall<'none', typeof newPassword>): Promise<Response> {
  const { token } = form
  const owner = await findLinkOwner(deps, 'set-password', token)
  if (!owner) return answerGone(c, deps)
  const again = (text: string, status: 400 | 503) =>
    answerForm(c, deps, { token, email: owner.email }, { text, status })

  if (form.new !== form.again) return again('The new password and its repetition are not the same.', 400)
  let account
  try {
    account = await resetPassword(deps, token, form.new)
  } catch (error) {
    if (error instanceof BadRequest) return again(`${error.message}.`, 400)
    if (!isTooBusy(error)) throw error
    c.header('retry-after', '5')
    return again(`${error.message}.`, 503)
  }
  if (!account) return answerGone(c, deps)
  // So that guesses by strangers do not hold the owner up.
  rememberBrowser(c, deps, account)
  return answerPage(c, deps, {
    title: 'Password saved',
    content: html`<p>From now on you sign in with the new one. Every session from before has ended.</p>
      <p class="soft">Passkeys of your account work on. If somebody else may have added one, look through them.</p>
      <p><a href="${deps.accountUrl}/sign-in">Sign in</a></p>`,
  })
}

const address = z.object({ email: textField })
const newPassword = z.object({ token: textField, new: textField, again: textField })

export const resetPages = [
  page({
    path: '/forgot-password',
    session: 'none',
    show: showForgot,
    form: address,
    csrf: ASK,
    submit: ask,
  }),
  page({
    path: '/set-password',
    session: 'none',
    show: showSetPassword,
    form: newPassword,
    csrf: ({ field }) => purposeOf(field('token') ?? ''),
    submit: setPassword,
  }),
]
