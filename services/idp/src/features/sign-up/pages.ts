import { readMailAddress } from '@platform/mail/mail-address'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { cookieBeforeSession, csrfBeforeSession } from '../../site/csrf.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { readInvitationOf, readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { findWaitingClient } from '../authorize/waiting-client.ts'
import { answerUnchecked } from '../invitations/answer-unchecked.ts'
import { type Admission, admissionOf, admits } from './admits.ts'
import { codePage } from './code-page.ts'
import { namePage } from './name-page.ts'
import { startSignUp } from './sign-up.ts'

interface Target {
  returnTo: ReturnTo
  admission: Admission
}

const purposeOf = ({ returnTo }: Target): string => `sign-up\n${returnTo.url}`

const signInLink = ({ accountUrl }: Deps, { url }: ReturnTo): Markup =>
  html`<p class="after">
    You have an account? <a href="${accountUrl}/sign-in?returnTo=${encodeURIComponent(url)}">Sign in</a>
  </p>`

const byWhom = ({ signUp: { supportUrl } }: Deps): Markup =>
  supportUrl === undefined
    ? html`Ask whoever runs this service.`
    : html`<a href="${supportUrl}">Ask whoever runs this service.</a>`

/** Says why there is no form. No letter goes to strangers here. */
const answerClosed = (c: Ctx, deps: Deps, { returnTo }: Target, status: 200 | 403): Promise<Response> =>
  answerPage(c, deps, {
    title: 'No new accounts here',
    status,
    content: html`<p>
        Accounts here are made for people who were invited. If you were, open the link of your invitation again.
        ${byWhom(deps)}
      </p>
      ${signInLink(deps, returnTo)}`,
  })

const answerWithoutMail = (c: Ctx, deps: Deps, { returnTo }: Target): Promise<Response> =>
  answerPage(c, deps, {
    title: 'Create an account',
    content: html`<p>This service sends no mail, so it cannot check your address. ${byWhom(deps)}</p>
      ${signInLink(deps, returnTo)}`,
  })

interface Problem {
  text: string
  status: 400 | 429
}

async function answerForm(
  c: Ctx,
  deps: Deps,
  target: Target,
  { email, problem }: { email: string; problem?: Problem },
): Promise<Response> {
  const { returnTo, admission } = target
  const waiting = await findWaitingClient(deps, returnTo)
  return answerPage(c, deps, {
    title: 'Create an account',
    status: problem?.status ?? 200,
    content: html`
      ${waiting ? html`<p class="soft">to continue to <strong>${waiting.client.name}</strong></p>` : ''}
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/sign-up">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(target))}" />
        <input type="hidden" name="returnTo" value="${returnTo.url}" />
        <label>
          Email
          ${
            admission.kind === 'invited'
              ? html`<input
                  type="email"
                  name="email"
                  value="${admission.email}"
                  autocomplete="email"
                  readonly
                  aria-describedby="how"
                />`
              : html`<input
                  type="email"
                  name="email"
                  value="${email}"
                  autocomplete="email"
                  required
                  maxlength="254"
                  autofocus
                  ${fieldProblem(problem, 'how')}
                />`
          }
        </label>
        <p class="soft" id="how">
          ${
            admission.kind === 'invited'
              ? 'The invitation is for this address.'
              : admission.kind === 'domains'
                ? html`An address of ${new Intl.ListFormat('en', { type: 'disjunction' }).format(admission.domains)}.`
                : ''
          }
          We mail you a code, to see that the address is yours.
        </p>
        <button type="submit">Mail me a code</button>
      </form>
      ${signInLink(deps, returnTo)}
    `,
  })
}

/**
 * Shows the form of the address. A signed-in user is led on, unless a client waits or an invitation does: both may be for another
 * account, as at sign-in.
 */
async function showSignUp({ c, deps, target, findSession }: PageCall<'none', Target>): Promise<Response> {
  const { returnTo, admission } = target
  const mayStay = returnTo.kind === 'account' && readInvitationOf(returnTo) === undefined
  if (mayStay && (await findSession())) return redirect(c, returnTo.url)
  if (admission.kind === 'closed') return answerClosed(c, deps, target, 200)
  if (!deps.mailer) return answerWithoutMail(c, deps, target)
  return answerForm(c, deps, target, { email: '' })
}

const address = z.object({ email: textField })

/** Gives every address that is admitted the same answer, before anything is looked up. */
async function start({ c, deps, target, form }: FormCall<'none', typeof address, Target>): Promise<Response> {
  const { returnTo, admission } = target
  if (admission.kind === 'closed') return answerClosed(c, deps, target, 403)
  if (!deps.mailer) return answerWithoutMail(c, deps, target)
  const typed = form.email.slice(0, 254)
  const again = (text: string, status: 400 | 429) =>
    answerForm(c, deps, target, { email: typed, problem: { text, status } })
  const email = admission.kind === 'invited' ? admission.email : readMailAddress(form.email)
  if (email === undefined) return again('This is not an email address.', 400)
  if (!admits(admission, email)) return again('Addresses of this domain cannot create an account here.', 400)
  const started = await startSignUp(deps, deps.mailer, {
    email,
    browser: cookieBeforeSession(c, deps),
    returnTo: returnTo.url,
    source: sourceOf(c, deps),
  })
  if (started.kind === 'paused')
    return again(tellPause(c, started.waitSeconds, 'Many codes were asked for from your network'), 429)
  return redirect(c, `${deps.accountUrl}/sign-up/code`)
}

export const signUpPages = [
  page({
    path: '/sign-up',
    session: 'none',
    async find({ c, deps, field }): Promise<Target | Response> {
      const returnTo = readReturnTo(deps, field('returnTo'))
      const admission = await admissionOf(deps, returnTo)
      if (admission) return { returnTo, admission }
      return answerUnchecked(c, deps, `${deps.accountUrl}/sign-up?returnTo=${encodeURIComponent(returnTo.url)}`)
    },
    show: showSignUp,
    form: address,
    csrf: ({ target }) => purposeOf(target),
    submit: start,
  }),
  codePage,
  namePage,
]
