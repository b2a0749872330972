import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { csrfBeforeSession } from '../../site/csrf.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { type FormCall, page, textField } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { checkSecondFactor } from '../authenticator/authenticator.ts'
import { codeForms } from '../authenticator/code-forms.ts'
import { answeredRequestOf, formActionOf } from '../authorize/waiting-client.ts'
import { passwordProof } from '../sessions/proof.ts'
import { startSession } from '../sessions/sessions.ts'

/** Whose password was proven, and which: another one set meanwhile makes it worth nothing. */
const passwordProven = z.object({ userId: z.string(), passwordStamp: z.string() })

/** How long after the password the code may come. */
const CODE_MS = 10 * 60_000
const purposeOf = (returnTo: ReturnTo): string => `second-factor\n${returnTo.url}`

const ticketOf = (c: Ctx, deps: Deps, returnTo: ReturnTo) => ({
  purpose: purposeOf(returnTo),
  cookie: readCookie(c, deps, 'before') ?? '',
})

interface Form {
  ticket: string
  problem?: string
  status?: 200 | 401 | 403 | 429
}

async function answerForm(
  c: Ctx,
  deps: Deps,
  returnTo: ReturnTo,
  { ticket, problem, status = 200 }: Form,
): Promise<Response> {
  const hidden = html`<input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(returnTo))}" />
    <input type="hidden" name="returnTo" value="${returnTo.url}" />
    <input type="hidden" name="ticket" value="${ticket}" />`
  return answerPage(c, deps, {
    title: 'Enter your code',
    status,
    formAction: await formActionOf(deps, returnTo),
    content: html`
      <p class="soft">Your password is right. Now enter the code that your authenticator app shows.</p>
      ${problem === undefined ? '' : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
      ${codeForms({ action: `${deps.accountUrl}/sign-in/code`, hidden, hasProblem: problem !== undefined })}
      <p class="back">
        <a href="${deps.accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}">Start again</a>
      </p>
    `,
  })
}

/** Asks for the second factor of someone whose password was proven. No session yet: what was proven is in the form, sealed. */
export function askForSecondFactor(
  c: Ctx,
  deps: Deps,
  returnTo: ReturnTo,
  proven: z.output<typeof passwordProven>,
): Promise<Response> {
  const ticket = writeTicket(deps, ticketOf(c, deps, returnTo), proven, CODE_MS)
  return answerForm(c, deps, returnTo, { ticket })
}

const code = z.object({ ticket: textField, code: textField })

/** The session starts here, once both are shown. */
async function checkCode({
  c,
  deps,
  target: returnTo,
  form,
}: FormCall<'none', typeof code, ReturnTo>): Promise<Response> {
  const { ticket } = form
  const proven = readTicket(deps, ticketOf(c, deps, returnTo), passwordProven, ticket)
  if (!proven) return redirectToSignIn(c, deps, returnTo)
  const again = (problem: string, status: NonNullable<Form['status']>) =>
    answerForm(c, deps, returnTo, { ticket, problem, status })

  const checked = await checkSecondFactor(deps, proven.userId, form.code, sourceOf(c, deps))
  if (checked.kind === 'paused') return again(tellPause(c, checked.waitSeconds), 429)
  if (checked.kind === 'wrong')
    return again('This code is not right, or was used already. Wait for the next one and try again.', 401)
  const { userId, passwordStamp } = proven
  const started = await startSession(c, deps, {
    userId,
    proof: passwordProof(passwordStamp),
    amr: 'pwd otp mfa',
    ways: ['password', checked.way],
    answeredRequest: answeredRequestOf(returnTo),
  })
  if (started === 'suspended') return again('This account is suspended. Ask whoever runs this service.', 403)
  return started === 'started' ? redirect(c, returnTo.url) : redirectToSignIn(c, deps, returnTo)
}

export const secondFactorPage = page({
  path: '/sign-in/code',
  session: 'none',
  find: ({ deps, field }) => readReturnTo(deps, field('returnTo')),
  // To the beginning: without a password there is nothing to add a code to.
  show: ({ c, deps }) => redirectToSignIn(c, deps, readReturnTo(deps, undefined)),
  form: code,
  csrf: ({ target }) => purposeOf(target),
  submit: checkCode,
})
