import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { csrfBeforeSession } from '../../site/csrf.ts'
import { type FormCall, page, type PageCall, type PageRequest, textField } from '../../site/page.ts'
import { readReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { usernameField } from '../../site/username-field.ts'
import { newAccountFields, type NewAccountProblem, newAccountSchema, readNames } from '../sign-up/new-account-form.ts'
import { hashNewPassword, signInNewAccount } from '../sign-up/sign-in-new-account.ts'
import { findWelcomed, takeWelcome } from './take-welcome.ts'

/** A working link's token, and whom it invites. */
interface Target {
  token: string
  owner: NonNullable<Awaited<ReturnType<typeof findWelcomed>>>
}

const purposeOf = (token: string): string => `welcome\n${token}`

const answerGone = (c: Ctx, deps: Deps): Promise<Response> =>
  answerPage(c, deps, {
    title: 'This link no longer works',
    status: 400,
    content: html`<p>It was used already, its time is over, or another link took its place.</p>
      <p><a href="${deps.accountUrl}/sign-in">Sign in</a>, or ask whoever invited you for another link.</p>`,
  })

const answerForm = (
  { c, deps, target: { token, owner } }: PageCall<'none', Target>,
  names: { givenName: string; familyName: string },
  problem?: NewAccountProblem,
): Promise<Response> =>
  answerPage(c, deps, {
    title: 'Welcome',
    status: problem?.status ?? 200,
    hasScript: true,
    content: html`
      <p class="soft">
        There is an account for <strong>${owner.email}</strong>. Choose how you sign in. Names are shown to the people
        you work with.
      </p>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/welcome">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(token))}" />
        <input type="hidden" name="token" value="${token}" />
        ${usernameField(owner.email)} ${newAccountFields(names, { button: 'Save and sign in', problem })}
      </form>
    `,
  })

async function findTarget({ c, deps, field }: PageRequest): Promise<Target | Response> {
  const token = field('token') ?? ''
  const owner = await findWelcomed(deps, token)
  return owner ? { token, owner } : answerGone(c, deps)
}

const welcomeForm = newAccountSchema.extend({ token: textField })

/** Signs the invited in here; without a password, by way of making a passkey. */
async function submit(call: FormCall<'none', typeof welcomeForm, Target>): Promise<Response> {
  const { c, deps, form, target } = call
  const again = (problem: NewAccountProblem) => answerForm(call, form, problem)

  const { names, problem } = readNames(form)
  if (problem) return again(problem)
  const hashed = await hashNewPassword(c, deps, form, { email: target.owner.email, ...names })
  if (hashed.problem) return again(hashed.problem)
  const { passwordHash } = hashed
  const user = await takeWelcome(deps, target.token, { ...names, passwordHash, source: sourceOf(c, deps) })
  return user ? signInNewAccount(c, deps, user, readReturnTo(deps, undefined)) : answerGone(c, deps)
}

/** The target of an operator's invitation to the platform. */
export const welcomePage = page({
  path: '/welcome',
  session: 'none',
  find: findTarget,
  show: (call) =>
    answerForm(call, { givenName: call.target.owner.givenName ?? '', familyName: call.target.owner.familyName ?? '' }),
  form: welcomeForm,
  csrf: ({ target }) => purposeOf(target.token),
  submit,
})
