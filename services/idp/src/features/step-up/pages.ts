import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageRequest, textField } from '../../site/page.ts'
import { hashRequest, readReturnTo, type ReturnTo, returnToPage } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { sourceOf } from '../../site/source.ts'
import { hasSecondFactor } from '../accounts/authentication-level.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { checkSecondFactor } from '../authenticator/authenticator.ts'
import { codeForms } from '../authenticator/code-forms.ts'
import { backToRequest } from '../authorize/about-request.ts'
import { AuthorizeRefusal, type AuthorizeRequest, checkAuthorizeRequest } from '../authorize/checks.ts'
import { decideAuthorize } from '../authorize/decide.ts'
import { redirectRefusal } from '../authorize/redirects.ts'
import { formActionSource } from '../clients/redirect-uri.ts'
import { passkeyForm } from '../passkeys/passkey-form.ts'
import { describePasskeyRequest, findPasskeyUser } from '../passkeys/passkeys.ts'
import { noteAnswer, upgradeSession } from '../sessions/sessions.ts'
import { findHeldFactors } from './held-factors.ts'
import { lostFactors } from './lost-factors.ts'

/** A session that needs a second factor, and the reason. */
interface StepUp {
  session: Session
  returnTo: ReturnTo
  /** The authorization request that waits for it; undefined for a page of the account site, such as the device page. */
  request: AuthorizeRequest | undefined
  /** Cannot be skipped. */
  isRequired: boolean
}

const purposeOf = (returnTo: ReturnTo): string => `second-factor\n${returnTo.url}`

/**
 * The target of a request to this page. If a second factor is no longer needed, or not yet, redirects to where that is
 * decided: authorize and this page use the same test, so they do not redirect to each other in a loop.
 */
async function findStepUp({ c, deps, field, session }: PageRequest & { session: Session }): Promise<StepUp | Response> {
  const returnTo = readReturnTo(deps, field('returnTo'))
  const back = () => redirect(c, returnTo.url)
  if (hasSecondFactor(session.amr)) return back()
  if (returnTo.kind === 'account') return { session, returnTo, request: undefined, isRequired: true }
  try {
    const request = await checkAuthorizeRequest(deps, returnTo.search)
    const decision = await decideAuthorize(deps, request, session)
    if (decision.next !== 'second-factor') return back()
    return { session, returnTo, request, isRequired: decision.isRequired }
  } catch (error) {
    if (error instanceof AuthorizeRefusal) return back()
    throw error
  }
}

interface Problem {
  text: string
  status: 401 | 429
}

async function answerStepUp(c: Ctx, deps: Deps, stepUp: StepUp, problem?: Problem): Promise<Response> {
  const { session, returnTo, request, isRequired } = stepUp
  const { hasApp, hasPasskey } = await findHeldFactors(deps, session.user.id)
  const action = `${deps.accountUrl}/second-factor`
  const hidden = html`<input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(returnTo))}" />
    <input type="hidden" name="returnTo" value="${returnTo.url}" />`
  return answerPage(c, deps, {
    title: hasApp || hasPasskey ? 'Confirm that it is you' : 'Set up a second factor',
    status: problem?.status ?? 200,
    hasScript: hasPasskey,
    formAction: request && formActionSource(request.redirectUri),
    content: html`
      <p>
        ${request ? html`<strong>${request.client.name}</strong> asks for` : 'What you are about to do takes'} more than
        the password of
        <strong>${session.user.email}</strong>${hasApp || hasPasskey ? '.' : ', and your account has nothing more yet.'}
      </p>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      ${
        hasPasskey
          ? passkeyForm({
              action: `${action}/passkey`,
              hidden,
              options: describePasskeyRequest(deps, { purpose: 'passkey-step-up', cookie: session.cookie }),
              button: 'Use a passkey',
            })
          : ''
      }
      ${hasApp ? codeForms({ action, hidden, hasProblem: problem !== undefined }) : ''}
      ${hasPasskey && !hasApp ? withoutScript : ''} ${hasApp || hasPasskey ? lostFactors : setUp(deps, returnTo)}
      ${
        request
          ? html`<form method="post" action="${action}">
              ${hidden}
              <button type="submit" name="decision" value="${isRequired ? 'cancel' : 'decline'}" class="second">
                ${isRequired ? 'Cancel' : 'Go on without'}
              </button>
            </form>`
          : html`<p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>`
      }
    `,
  })
}

const withoutScript = html`<p class="empty" data-without-script>
    A passkey takes JavaScript, which your browser has turned off.
  </p>
  <p class="empty" data-without-passkeys hidden>This browser knows no passkeys. Try a newer one, or another device.</p>`

function setUp(deps: Deps, returnTo: ReturnTo): Markup {
  const app = returnToPage(deps, 'authenticator/add', returnTo)
  const passkey = returnToPage(deps, 'passkeys/add', returnTo)
  return html`<p class="soft">Both take a minute, and lead back here.</p>
    <p><a class="button" href="${passkey.url}">Add a passkey</a></p>
    <p><a class="button second" href="${app.url}">Set up an authenticator app</a></p>`
}

const answer = z.object({ decision: textField, code: textField })

/** Accepts a code, or the user's choice to skip it. */
async function takeCode({ c, deps, target: stepUp, form }: FormCall<'any', typeof answer, StepUp>): Promise<Response> {
  const { session, returnTo, request } = stepUp
  if (request && form.decision === 'cancel')
    return redirectRefusal(c, deps, new AuthorizeRefusal(request, 'access_denied', 'The user showed no second factor'))
  if (request && form.decision === 'decline') {
    // If a policy requires one, this choice changes nothing: authorize asks again.
    await noteAnswer(deps, session.id, hashRequest(request.search), 'declined-second-factor')
    return redirect(c, returnTo.url)
  }
  const checked = await checkSecondFactor(deps, session.user.id, form.code, sourceOf(c, deps))
  if (checked.kind === 'paused')
    return answerStepUp(c, deps, stepUp, { text: tellPause(c, checked.waitSeconds), status: 429 })
  if (checked.kind === 'wrong')
    return answerStepUp(c, deps, stepUp, {
      text: 'This code is not right, or was used already. Wait for the next one and try again.',
      status: 401,
    })
  await upgradeSession(c, deps, session, { amr: 'otp mfa', ways: [checked.way] })
  return redirect(c, returnTo.url)
}

const usedPasskey = z.object({ credential: textField })

/** Accepts a passkey of the very user who is signed in. */
async function takePasskey({
  c,
  deps,
  target: stepUp,
  form,
}: FormCall<'any', typeof usedPasskey, StepUp>): Promise<Response> {
  const { session, returnTo } = stepUp
  const challenge = { purpose: 'passkey-step-up', cookie: session.cookie } as const
  const passkeyUser = await findPasskeyUser(deps, challenge, form.credential)
  const isDone =
    passkeyUser?.userId === session.user.id &&
    (await upgradeSession(c, deps, session, {
      amr: passkeyUser.amr,
      ways: ['passkey'],
      proof: passkeyUser.proof,
    })) === 'started'
  if (isDone) return redirect(c, returnTo.url)
  return answerStepUp(c, deps, stepUp, {
    text: 'This passkey is not one of your account, or the page was open for too long. Try again.',
    status: 401,
  })
}

/** Guards of both forms on the page. Visitors without a session are redirected to authorize as well. */
const guard = {
  session: 'any',
  back: backToRequest,
  find: findStepUp,
  csrf: ({ target }: { target: StepUp }) => purposeOf(target.returnTo),
} as const

/** Pages that prove a second factor in an existing session, or set one up. */
export const stepUpPages = [
  page({
    path: '/second-factor',
    ...guard,
    show: ({ c, deps, target }) => answerStepUp(c, deps, target),
    form: answer,
    submit: takeCode,
  }),
  page({ path: '/second-factor/passkey', ...guard, form: usedPasskey, submit: takePasskey }),
]
