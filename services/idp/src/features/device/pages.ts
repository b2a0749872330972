import { Forbidden } from '@platform/errors/api-error'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { addressOf, type Ctx } from '../../http/app.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { decisionBar } from '../../site/decision-bar.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { moment } from '../../site/moment.ts'
import { redirectToSignIn, redirectToStepUp } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { returnToDevice } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { lacksSecondFactor, policyRefusal } from '../accounts/admission.ts'
import { scopeList } from '../consents/scope-list.ts'
import { whoAsks } from '../consents/who-asks.ts'
import { decideDevice, findPendingDevice, type PendingDevice } from './decide-device.ts'
import { formatUserCode, readUserCode } from './user-code.ts'

const purposeOf = (userCode: string): string => `device\n${userCode}`

const WRONG_CODE = 'This code is not known, or its time is over. Compare it with your device, or start again there.'

function answerEntry(c: Ctx, deps: Deps, typed: string, problem?: string): Promise<Response> {
  return answerPage(c, deps, {
    title: 'Connect a device',
    status: problem === undefined ? 200 : 400,
    content: html`
      <p class="soft" id="how">Enter the code that your device shows.</p>
      ${problem === undefined ? '' : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
      <form method="get" action="${deps.accountUrl}/device">
        <label>
          Code
          <input
            class="code-entry"
            name="user_code"
            value="${typed}"
            placeholder="XXXX-XXXX"
            autocomplete="off"
            autocapitalize="characters"
            spellcheck="false"
            maxlength="20"
            required
            autofocus
            ${problem === undefined ? fieldProblem(undefined, 'how') : fieldProblem({ status: 400 })}
          />
        </label>
        <button type="submit">Continue</button>
      </form>
    `,
  })
}

/** A link on another site led here, at once or by way of sign-in. */
const isLinked = (c: Ctx): boolean =>
  c.req.header('sec-fetch-site') === 'cross-site' || c.req.query('linked') !== undefined

/**
 * Warnings that somebody else may have sent the code (RFC 8628 §5.4): the device is on another network than the browser that
 * would approve it, another site's link led here, or a confidential client was named by who did not authenticate as it (D11).
 * Addresses are compared as rate limits count them, IPv6 by its /64.
 */
function warningsOf(c: Ctx, { address, client, isClientProven }: PendingDevice, here: string): Markup[] {
  const isOtherFamily = address.includes(':') !== here.includes(':')
  return [
    ...(address === here
      ? []
      : [
          html`<p>
              <strong>This was started from another network than yours:</strong> from ${address}, and you are at
              ${here}. If someone sent you this code or link, deny.
            </p>
            <p>
              It can be right if the device is somewhere else, such as a server that you are signed in
              to${isOtherFamily ? ', or if the two reach the Internet in different ways (IPv4 and IPv6)' : ''}.
            </p>`,
        ]),
    ...(isLinked(c)
      ? [html`<p><strong>A link on another site led here.</strong> If someone sent it to you, deny.</p>`]
      : []),
    ...(isClientProven
      ? []
      : [
          html`<p>
            <strong>${client.name} did not prove that it sent this request.</strong> Allow it only if you started it
            yourself, on a device in front of you.
          </p>`,
        ]),
  ]
}

function answerApproval(c: Ctx, deps: Deps, session: Session, device: PendingDevice): Promise<Response> {
  const { client, address, userAgent, createdAt } = device
  const here = addressOf(c, deps)
  const warnings = warningsOf(c, device, here)
  return answerPage(c, deps, {
    title: `Connect ${client.name}?`,
    hasScript: true,
    content: html`
      <p>
        A device asks to use your account. Allow it only if you started this yourself, just now, and it shows this code:
      </p>
      <p class="code">${formatUserCode(device.userCode)}</p>
      ${warnings.length === 0 ? '' : html`<div class="alert warn">${warnings}</div>`}
      <dl>
        ${whoAsks(client)}
        <dt>Started from</dt>
        <dd>${address}${address === here ? '' : html` <span class="badge danger">Another network</span>`}</dd>
        ${
          userAgent &&
          html`<dt>Started with</dt>
            <dd><span title="${userAgent}">${describeBrowser(userAgent)}</span>, as it says itself</dd>`
        }
        <dt>Started</dt>
        <dd>${moment(createdAt, deps.now())}</dd>
        <dt>Your account</dt>
        <dd><strong>${session.user.email}</strong></dd>
      </dl>
      <h2>It would be able to</h2>
      ${scopeList(device.scopes)}
      ${decisionBar({
        action: `${deps.accountUrl}/device/decision`,
        hidden: html`<input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(device.userCode))}" />
          <input type="hidden" name="user_code" value="${formatUserCode(device.userCode)}" />`,
        isWarned: warnings.length > 0,
      })}
    `,
  })
}

/** Shows the field for a code, or the device whose code is in the query (B §2). Looking approves nothing. */
async function showDevice({ c, deps, session, field }: PageCall<'any'>): Promise<Response> {
  const typed = field('user_code') ?? ''
  if (typed === '') return answerEntry(c, deps, '')
  const userCode = readUserCode(typed)
  const device = userCode && (await findPendingDevice(deps, { userCode, session, address: addressOf(c, deps) }))
  return device ? answerApproval(c, deps, session, device) : answerEntry(c, deps, typed.slice(0, 20), WRONG_CODE)
}

const answer = z.object({ user_code: textField, decision: textField })

/** Handles the decision. The client's policy has to permit the account (B §5). */
async function decide({ c, deps, session, form }: FormCall<'any', typeof answer>): Promise<Response> {
  const userCode = readUserCode(form.user_code)
  const device = userCode && (await findPendingDevice(deps, { userCode, session, address: addressOf(c, deps) }))
  if (!device) return answerEntry(c, deps, '', WRONG_CODE)
  c.set('clientId', device.client.id)

  const isApproved = form.decision === 'approve'
  const refusal = policyRefusal(device.client, session.user)
  if (isApproved && refusal !== undefined) throw new Forbidden(`Your account cannot be connected: ${refusal}`)
  if (isApproved && lacksSecondFactor(device.client, session.amr))
    return redirectToStepUp(c, deps, returnToDevice(deps, formatUserCode(device.userCode)))
  const decision = isApproved ? 'approved' : 'denied'
  const outcome = await decideDevice(deps, { device, session, decision })
  if (outcome === 'signed-out') return redirectToSignIn(c, deps, returnToDevice(deps, userCode))
  if (outcome === 'too-late') return answerEntry(c, deps, '', WRONG_CODE)
  return answerPage(c, deps, {
    title: isApproved ? 'Device connected' : 'Request denied',
    content: isApproved
      ? html`<p>
          <strong>${device.client.name}</strong> is connected. You can close this page and go back to your device.
        </p>`
      : html`<p><strong>${device.client.name}</strong> was not connected. You can close this page.</p>`,
  })
}

export const devicePages = [
  page({
    path: '/device',
    session: 'any',
    back: ({ c, deps, field }) =>
      returnToDevice(deps, field('user_code')?.slice(0, 20) || undefined, { isLinked: isLinked(c) }),
    show: showDevice,
  }),
  page({
    path: '/device/decision',
    session: 'any',
    back: ({ deps, field }) => returnToDevice(deps, readUserCode(field('user_code') ?? '')),
    form: answer,
    csrf: ({ field }) => purposeOf(readUserCode(field('user_code') ?? '') ?? ''),
    submit: decide,
  }),
]
