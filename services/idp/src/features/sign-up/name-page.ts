import { html } from 'hono/html'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { csrfBeforeSession } from '../../site/csrf.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, type PageRequest, textField } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { usernameField } from '../../site/username-field.ts'
import { formActionOf } from '../authorize/waiting-client.ts'
import { newAccountFields, type NewAccountProblem, newAccountSchema, readNames } from './new-account-form.ts'
import { hashNewPassword, leadOn, signInNewAccount } from './sign-in-new-account.ts'
import { findSignUp, finishSignUp, type StartedSignUp } from './sign-up.ts'

interface Target {
  /** Undefined if nothing was begun in this browser, or if its account was made. */
  started: StartedSignUp | undefined
  /** The address that the form is about: of what was begun, or else what the form says. */
  email: string
  returnTo: ReturnTo
}

const purposeOf = ({ email }: Target): string => `sign-up-name\n${email}`

async function answerForm(
  { c, deps, target }: PageCall<'none', Target>,
  names: { givenName: string; familyName: string },
  problem?: NewAccountProblem,
): Promise<Response> {
  const { email, returnTo } = target
  return answerPage(c, deps, {
    title: 'Finish your account',
    status: problem?.status ?? 200,
    hasScript: true,
    formAction: await formActionOf(deps, returnTo),
    content: html`
      <p class="soft"><strong>${email}</strong> is yours. Names are shown to the people you work with.</p>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/sign-up/name">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(target))}" />
        <input type="hidden" name="returnTo" value="${returnTo.url}" />
        ${usernameField(email)} ${newAccountFields(names, { button: 'Create account', problem })}
      </form>
    `,
  })
}

/** Nothing is proven here any more, or nothing was begun. */
function answerOver({ c, deps, target: { returnTo } }: PageCall<'none', Target>): Promise<Response> {
  const query = `?returnTo=${encodeURIComponent(returnTo.url)}`
  return answerPage(c, deps, {
    title: 'Sign in, or begin again',
    status: 400,
    content: html`<p>
        Your account may be made already: <a href="${deps.accountUrl}/sign-in${query}">sign in</a>. If it is not, half
        an hour has passed since you typed the code.
      </p>
      <p><a href="${deps.accountUrl}/sign-up${query}">Begin again</a></p>`,
  })
}

async function findTarget({ c, deps, field }: PageRequest): Promise<Target> {
  const started = await findSignUp(deps, readCookie(c, deps, 'before'))
  return {
    started,
    email: started?.email ?? field('username') ?? '',
    returnTo: readReturnTo(deps, started?.returnTo ?? field('returnTo')),
  }
}

function showNames(call: PageCall<'none', Target>): Response | Promise<Response> {
  const { c, deps, target } = call
  if (target.started?.state === 'typing') return redirect(c, `${deps.accountUrl}/sign-up/code`)
  if (target.started?.state !== 'proven') return answerOver(call)
  return answerForm(call, { givenName: '', familyName: '' })
}

const namesForm = newAccountSchema.extend({ username: textField, returnTo: textField })

type Sent = FormCall<'none', typeof namesForm, Target>

/** As after a second press of the button: whoever has got their account is led on by it, too. */
async function answerSentLate(call: Sent): Promise<Response> {
  const { c, deps, target, form, findSession } = call
  const session = await findSession()
  if (session?.user.email !== target.email) return answerOver(call)
  return leadOn(c, deps, target.returnTo, { hasPassword: form.way !== 'passkey' })
}

/** Makes the account, signs its owner in here, and leads to where they wanted to be; with a passkey, by way of making it. */
async function create(call: Sent): Promise<Response> {
  const { c, deps, target, form } = call
  const { started, email, returnTo } = target
  if (started?.state !== 'proven') return answerSentLate(call)
  const again = (problem: NewAccountProblem) => answerForm(call, form, problem)

  const { names, problem } = readNames(form)
  if (problem) return again(problem)
  const hashed = await hashNewPassword(c, deps, form, { email, ...names })
  if (hashed.problem) return again(hashed.problem)
  const browser = readCookie(c, deps, 'before') ?? ''
  const { passwordHash } = hashed
  const finished = await finishSignUp(deps, { browser, email }, { ...names, passwordHash, source: sourceOf(c, deps) })
  if (finished.kind === 'over') return answerSentLate(call)
  if (finished.kind === 'taken')
    return answerPage(c, deps, {
      title: 'You have an account by now',
      status: 400,
      content: html`<p>While you were here, an account was made for <strong>${email}</strong>.</p>
        <p>
          <a class="button" href="${deps.accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}">Sign in</a>
        </p>`,
    })
  return signInNewAccount(c, deps, finished.user, returnTo)
}

export const namePage = page({
  path: '/sign-up/name',
  session: 'none',
  find: findTarget,
  show: showNames,
  form: namesForm,
  // A browser that has proven another address meanwhile shows it in another form.
  csrf: ({ target }) => purposeOf(target),
  submit: create,
})
