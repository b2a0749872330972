import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { cookieBeforeSession, csrfBeforeSession } from '../../site/csrf.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { type FormCall, page, type PageRequest, textField } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'
import { withMore } from '../accounts/authentication-level.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { checkSecondFactor } from '../authenticator/authenticator.ts'
import { codeForms } from '../authenticator/code-forms.ts'
import { answeredRequestOf, formActionOf } from '../authorize/waiting-client.ts'
import { passkeyForm } from '../passkeys/passkey-form.ts'
import { describePasskeyRequest, findPasskeyUser, listPasskeys } from '../passkeys/passkeys.ts'
import { bothProofs, passwordProof } from '../sessions/proof.ts'
import { startSession } from '../sessions/sessions.ts'
import { lostFactors } from '../step-up/lost-factors.ts'
import { SUSPENDED } from './form.ts'

/** The user whose password was proven, and the stamp of that password: setting another one meanwhile makes this worthless. */
const passwordProven = z.object({
  userId: z.string(),
  passwordStamp: z.string(),
  // Tickets of the previous release lack this choice.
  staysSignedIn: z.boolean().default(true),
})

const NO_PASSKEY =
  'This passkey is not one of your account, or the page was open for too long. Try again, or enter a code.'

/** How long after the password the code or the passkey may follow. */
const CODE_MS = 10 * 60_000
const purposeOf = (returnTo: ReturnTo): string => `second-factor\n${returnTo.url}`

const ticketOf = (c: Ctx, deps: Deps, returnTo: ReturnTo) => ({
  purpose: purposeOf(returnTo),
  cookie: readCookie(c, deps, 'before') ?? '',
})

interface Form {
  userId: string
  ticket: string
  problem?: string
  status?: 200 | 401 | 403 | 429
}

async function answerForm(
  c: Ctx,
  deps: Deps,
  returnTo: ReturnTo,
  { userId, ticket, problem, status = 200 }: Form,
): Promise<Response> {
  const hidden = html`<input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(returnTo))}" />
    <input type="hidden" name="returnTo" value="${returnTo.url}" />
    <input type="hidden" name="ticket" value="${ticket}" />`
  const hasPasskey = (await listPasskeys(deps, userId)).length > 0
  return answerPage(c, deps, {
    title: hasPasskey ? 'Confirm that it is you' : 'Enter your code',
    status,
    hasScript: hasPasskey,
    formAction: await formActionOf(deps, returnTo),
    content: html`
      <p class="soft">
        Your password is right. Now ${hasPasskey ? 'use a passkey, or enter' : 'enter'} the code that your authenticator
        app shows.
      </p>
      ${problem === undefined ? '' : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
      ${
        hasPasskey
          ? passkeyForm({
              action: `${deps.accountUrl}/sign-in/code/passkey`,
              hidden,
              options: describePasskeyRequest(deps, {
                purpose: 'passkey-second-factor',
                cookie: cookieBeforeSession(c, deps),
              }),
              button: 'Use a passkey',
            })
          : ''
      }
      ${codeForms({ action: `${deps.accountUrl}/sign-in/code`, hidden, hasProblem: problem !== undefined })}
      ${lostFactors}
      <p class="back">
        <a href="${deps.accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}">Start again</a>
      </p>
    `,
  })
}

/**
 * Asks for the second factor after a correct password. There is no session yet: the form carries a sealed ticket of that
 * proof.
 */
export function askForSecondFactor(
  c: Ctx,
  deps: Deps,
  returnTo: ReturnTo,
  proven: z.output<typeof passwordProven>,
): Promise<Response> {
  const ticket = writeTicket(deps, ticketOf(c, deps, returnTo), proven, CODE_MS)
  return answerForm(c, deps, returnTo, { userId: proven.userId, ticket })
}

const code = z.object({ ticket: textField, code: textField })

/** The session starts here, once both factors are proven. */
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
    answerForm(c, deps, returnTo, { userId: proven.userId, ticket, problem, status })

  const checked = await checkSecondFactor(deps, proven.userId, form.code, sourceOf(c, deps))
  if (checked.kind === 'paused') return again(tellPause(c, checked.waitSeconds), 429)
  if (checked.kind === 'wrong')
    return again('This code is not right, or was used already. Wait for the next one and try again.', 401)
  const { userId, passwordStamp, staysSignedIn } = proven
  const started = await startSession(c, deps, {
    userId,
    proof: passwordProof(passwordStamp),
    amr: 'pwd otp mfa',
    ways: ['password', checked.way],
    answeredRequest: answeredRequestOf(returnTo),
    staysSignedIn,
  })
  if (started === 'suspended') return again(SUSPENDED, 403)
  return started === 'started' ? redirect(c, returnTo.url) : redirectToSignIn(c, deps, returnTo)
}

const passkey = z.object({ ticket: textField, credential: textField })

/** Accepts a passkey of the very user whose password was proven, used with this page. */
async function checkPasskey({
  c,
  deps,
  target: returnTo,
  form,
}: FormCall<'none', typeof passkey, ReturnTo>): Promise<Response> {
  const { ticket } = form
  const proven = readTicket(deps, ticketOf(c, deps, returnTo), passwordProven, ticket)
  if (!proven) return redirectToSignIn(c, deps, returnTo)
  const { userId, passwordStamp, staysSignedIn } = proven
  const again = (problem: string, status: NonNullable<Form['status']>) =>
    answerForm(c, deps, returnTo, { userId, ticket, problem, status })

  const challenge = { purpose: 'passkey-second-factor', cookie: cookieBeforeSession(c, deps) } as const
  const used = await findPasskeyUser(deps, challenge, form.credential)
  if (used?.userId !== userId) return again(NO_PASSKEY, 401)
  const started = await startSession(c, deps, {
    userId,
    proof: bothProofs(passwordProof(passwordStamp), used.proof),
    amr: withMore('pwd', used.amr),
    ways: ['password', 'passkey'],
    answeredRequest: answeredRequestOf(returnTo),
    staysSignedIn,
  })
  if (started === 'suspended') return again(SUSPENDED, 403)
  return started === 'started' ? redirect(c, returnTo.url) : again(NO_PASSKEY, 401)
}

/** Guards of both forms on the page. A plain GET redirects to the start, since it lacks the proof that the forms add to. */
const guard = {
  session: 'none',
  find: ({ deps, field }: PageRequest) => readReturnTo(deps, field('returnTo')),
  show: ({ c, deps }: PageRequest) => redirectToSignIn(c, deps, readReturnTo(deps, undefined)),
  csrf: ({ target }: { target: ReturnTo }) => purposeOf(target),
} as const

export const secondFactorPages = [
  page({ path: '/sign-in/code', ...guard, form: code, submit: checkCode }),
  page({ path: '/sign-in/code/passkey', ...guard, form: passkey, submit: checkPasskey }),
]
