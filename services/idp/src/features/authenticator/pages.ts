import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, type PageRequest, textField } from '../../site/page.ts'
import { readFlow, type ReturnTo, returnToPage } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { sourceOf } from '../../site/source.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'
import { usernameField } from '../../site/username-field.ts'
import { formActionOf } from '../authorize/waiting-client.ts'
import { checkPassword } from '../accounts/check-password.ts'
import { isTooBusy } from '../accounts/passwords.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { upgradeSession } from '../sessions/sessions.ts'
import {
  addAuthenticator,
  checkSecondFactor,
  findAuthenticator,
  removeAuthenticator,
  renewRecoveryCodes,
} from './authenticator.ts'
import { qrCode } from './qr-code.ts'
import { countRecoveryCodes, readRecoveryCode, useRecoveryCode } from './recovery-codes.ts'
import { formatTotpSecret, newTotpSecret, totpUri } from './totp.ts'

const ADD = 'add-authenticator'
const RENEW = 'renew-recovery-codes'
const REMOVE = 'remove-authenticator'
const ADD_MS = 30 * 60_000
const ticketShape = z.object({ secret: z.base64url() })
/** At this number or below, the page suggests making new ones. */
const CODES_FEW = 3

interface Problem {
  text: string
  status: 400 | 401 | 429 | 503
}
const paused = (c: Ctx, waitSeconds: number): Problem => ({ text: tellPause(c, waitSeconds), status: 429 })

const back = ({ accountUrl }: Deps) => html`<p class="back"><a href="${accountUrl}/">Back to your account</a></p>`

function answerAbsent(c: Ctx, deps: Deps): Promise<Response> {
  return answerPage(c, deps, {
    title: 'Authenticator app',
    isWide: true,
    content: html`
      <p>With an app on your phone, signing in with your password takes a code from it as well.</p>
      <p class="empty">You have not set up an app.</p>
      <p><a class="button" href="${deps.accountUrl}/authenticator/add">Set up an app</a></p>
      ${back(deps)}
    `,
  })
}

/** The page for users who have an app. `failed`: which of its forms has a problem. */
async function answerPresent(
  c: Ctx,
  deps: Deps,
  session: Session,
  since: Date,
  failed?: { form: typeof RENEW | typeof REMOVE; problem: Problem },
): Promise<Response> {
  const left = await countRecoveryCodes(deps, session.user.id)
  const form = (purpose: typeof RENEW | typeof REMOVE, path: string, button: string) => {
    const problem = failed?.form === purpose ? failed.problem : undefined
    return html`<form method="post" action="${deps.accountUrl}/authenticator/${path}">
      <input type="hidden" name="csrf" value="${csrfOfSession(session, purpose)}" />
      ${usernameField(session.user.email)}
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <label>
        Your password, a code, or a recovery code
        <input
          type="password"
          name="proof-${path}"
          autocomplete="current-password"
          required
          ${fieldProblem(problem)}
          ${problem && html`autofocus`}
        />
      </label>
      <button type="submit" class="second">${button}</button>
    </form>`
  }
  return answerPage(c, deps, {
    title: 'Authenticator app',
    isWide: true,
    status: failed?.problem.status ?? 200,
    hasScript: true,
    content: html`
      <p>Signing in with your password takes a code from your app as well.</p>
      <dl>
        <dt>Set up</dt>
        <dd>${moment(since, deps.now())}</dd>
        <dt>Recovery codes</dt>
        <dd>${left === 0 ? 'None left' : `${left} left`}</dd>
      </dl>
      ${left <= CODES_FEW ? html`<p class="alert warn">Make new recovery codes before you run out of them.</p>` : ''}
      <details ${failed?.form === RENEW ? html`open` : ''}>
        <summary>Make new recovery codes</summary>
        <p class="soft">Those from before stop working.</p>
        ${form(RENEW, 'recovery-codes', 'Make new codes')}
      </details>
      <details ${failed?.form === REMOVE ? html`open` : ''}>
        <summary>Remove the app</summary>
        <p class="soft">
          Your password alone signs you in again. Applications that ask for more will not let you in until you set up
          another.
        </p>
        ${form(REMOVE, 'remove', 'Remove the app')}
      </details>
      ${back(deps)}
    `,
  })
}

async function showAuthenticator({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const present = await findAuthenticator(deps, session.user.id)
  return present ? answerPresent(c, deps, session, present.createdAt) : answerAbsent(c, deps)
}

const ticketOf = (session: Session) => ({ purpose: ADD, cookie: session.cookie })

/** The flow that waits for the app. */
type Flow = ReturnTo | undefined

interface Adding {
  session: Session
  secret: Buffer
  flow: Flow
  problem?: Problem
}

async function answerAdd(c: Ctx, deps: Deps, { session, secret, flow, problem }: Adding): Promise<Response> {
  const uri = totpUri(secret, { issuer: deps.issuer, email: session.user.email })
  const ticket = writeTicket(deps, ticketOf(session), { secret: secret.toString('base64url') }, ADD_MS)
  return answerPage(c, deps, {
    title: 'Set up an authenticator app',
    status: problem?.status ?? 200,
    formAction: flow && (await formActionOf(deps, flow)),
    content: html`
      <p class="soft">
        Scan this with an app such as Aegis, 2FAS or Google Authenticator, then enter the code it shows.
      </p>
      ${qrCode(uri, 'QR code for your authenticator app')}
      <details>
        <summary>No camera at hand?</summary>
        <p class="soft">
          On this device, <a href="${uri}">open your app</a>. Or enter this key by hand, as a time-based one:
        </p>
        <p class="secret">${formatTotpSecret(secret)}</p>
      </details>
      ${problem && html`<p class="alert" role="alert" id="problem">${problem.text}</p>`}
      <form method="post" action="${deps.accountUrl}/authenticator/add">
        <input type="hidden" name="csrf" value="${csrfOfSession(session, ADD)}" />
        <input type="hidden" name="ticket" value="${ticket}" />
        ${flow && html`<input type="hidden" name="returnTo" value="${flow.url}" />`}
        <label>
          Code from the app
          <input
            class="code-entry"
            name="code"
            inputmode="numeric"
            autocomplete="one-time-code"
            required
            maxlength="10"
            autofocus
            ${fieldProblem(problem)}
          />
        </label>
        <button type="submit">Turn on</button>
      </form>
      <p class="back"><a href="${flow?.url ?? `${deps.accountUrl}/authenticator`}">Cancel</a></p>
    `,
  })
}

/** Makes a new secret every time it is shown; nothing is stored before a code proves that the app has it. */
async function showAdd({ c, deps, session, target: flow }: PageCall<'fresh', Flow>): Promise<Response> {
  if (await findAuthenticator(deps, session.user.id))
    return redirect(c, flow?.url ?? `${deps.accountUrl}/authenticator`)
  return answerAdd(c, deps, { session, secret: newTotpSecret(), flow })
}

interface NewCodes {
  title: string
  session: Session
  codes: readonly string[]
  flow?: Flow
}

/** The text of a file with the codes; it says what it is, since it may be read a year later. */
const fileOf = ({ issuer, now }: Deps, { email }: Session['user'], codes: readonly string[]): string =>
  `Recovery codes of ${email} at ${new URL(issuer).host}
Made on ${now().toISOString().slice(0, 10)}. Each signs you in once, in place of your authenticator app.

${codes.join('\n')}
`

async function answerCodes(c: Ctx, deps: Deps, { title, session, codes, flow }: NewCodes): Promise<Response> {
  return answerPage(c, deps, {
    title,
    formAction: flow && (await formActionOf(deps, flow)),
    hasScript: true,
    content: html`
      <p>
        Keep these recovery codes where you keep what must not get lost, such as a password manager or on paper. Each
        signs you in once, in place of your app.
      </p>
      <ol class="codes" aria-label="Recovery codes">
        ${codes.map((code) => html`<li>${code}</li>`)}
      </ol>
      <div class="takes" data-text="${fileOf(deps, session.user, codes)}" hidden>
        <button type="button" class="second" data-take="copy">Copy</button>
        <button type="button" class="second" data-take="save">Download</button>
        <button type="button" class="second" data-take="print">Print</button>
        <p class="soft" role="status"></p>
      </div>
      <p class="alert warn">They are shown here and never again.</p>
      <p><a class="button" href="${flow?.url ?? `${deps.accountUrl}/`}">I have saved them</a></p>
    `,
  })
}

const firstCode = z.object({ ticket: textField, code: textField })

/** The code counts as a second factor, so the session is upgraded. */
async function add({
  c,
  deps,
  session,
  target: flow,
  form,
}: FormCall<'fresh', typeof firstCode, Flow>): Promise<Response> {
  const ticket = readTicket(deps, ticketOf(session), ticketShape, form.ticket)
  if (!ticket) return redirect(c, returnToPage(deps, 'authenticator/add', flow).url)
  const secret = Buffer.from(ticket.secret, 'base64url')
  const code = form.code.replaceAll(/\s/g, '')
  const added = await addAuthenticator(deps, { userId: session.user.id, secret, code })
  if (added.kind === 'present') return redirect(c, flow?.url ?? `${deps.accountUrl}/authenticator`)
  if (added.kind === 'wrong')
    return answerAdd(c, deps, {
      session,
      secret,
      flow,
      problem: {
        text: 'This code is not right. Enter the one that the app shows now; if it stays wrong, check the clock of your phone.',
        status: 400,
      },
    })
  await upgradeSession(c, deps, session, { amr: 'otp mfa', authTime: session.authTime, ways: undefined })
  return answerCodes(c, deps, { title: 'Your app is set up', session, codes: added.recoveryCodes, flow })
}

/** Verifies the user's identity once more: by a code of the app, a recovery code, or the password. */
async function prove(c: Ctx, deps: Deps, session: Session, text: string): Promise<Problem | undefined> {
  const { id, email } = session.user
  // A password has at least eight characters, so six digits are never one.
  if (/^\s*\d{3}\s?\d{3}\s*$/.test(text)) {
    const checked = await checkSecondFactor(deps, id, text, sourceOf(c, deps))
    if (checked.kind === 'paused') return paused(c, checked.waitSeconds)
    return checked.kind === 'right' ? undefined : { text: 'This code is not right.', status: 401 }
  }
  // A password may look like a recovery code, so a wrong code falls through. 80 random bits cannot be guessed: no back-off
  // needed.
  const recoveryCode = readRecoveryCode(text)
  if (recoveryCode !== undefined && (await useRecoveryCode(deps, id, recoveryCode))) return undefined
  try {
    const checked = await checkPassword(deps, {
      email,
      password: text,
      source: sourceOf(c, deps),
      knownBrowser: readCookie(c, deps, 'known'),
      isSignedIn: true,
    })
    if (checked.kind === 'paused') return paused(c, checked.waitSeconds)
    return checked.kind === 'proven' && checked.userId === id
      ? undefined
      : { text: 'This password or code is not right.', status: 401 }
  } catch (error) {
    if (!isTooBusy(error)) throw error
    c.header('retry-after', '5')
    return { text: `${error.message}.`, status: 503 }
  }
}

const proofToRenew = z.object({ 'proof-recovery-codes': textField })
const proofToRemove = z.object({ 'proof-remove': textField })

async function renew({ c, deps, session, form }: FormCall<'proven', typeof proofToRenew>): Promise<Response> {
  const present = await findAuthenticator(deps, session.user.id)
  if (!present) return redirect(c, `${deps.accountUrl}/authenticator`)
  const problem = await prove(c, deps, session, form['proof-recovery-codes'])
  if (problem) return answerPresent(c, deps, session, present.createdAt, { form: RENEW, problem })
  const codes = await renewRecoveryCodes(deps, session.user.id)
  if (!codes) return redirect(c, `${deps.accountUrl}/authenticator`)
  return answerCodes(c, deps, { title: 'New recovery codes', session, codes })
}

async function remove({ c, deps, session, form }: FormCall<'proven', typeof proofToRemove>): Promise<Response> {
  const present = await findAuthenticator(deps, session.user.id)
  if (!present) return redirect(c, `${deps.accountUrl}/authenticator`)
  const problem = await prove(c, deps, session, form['proof-remove'])
  if (problem) return answerPresent(c, deps, session, present.createdAt, { form: REMOVE, problem })
  await removeAuthenticator(deps, session.user.id, `user:${session.user.id}`)
  return redirect(c, `${deps.accountUrl}/authenticator`)
}

const findFlow = ({ deps, field }: PageRequest): Flow => readFlow(deps, field('returnTo'))

export const authenticatorPages = [
  page({ path: '/authenticator', session: 'any', back: 'authenticator', show: showAuthenticator }),
  page({
    path: '/authenticator/add',
    session: 'fresh',
    back: (request) => returnToPage(request.deps, 'authenticator/add', findFlow(request)),
    find: findFlow,
    show: showAdd,
    form: firstCode,
    csrf: ADD,
    submit: add,
  }),
  page({
    path: '/authenticator/recovery-codes',
    session: 'proven',
    back: 'authenticator',
    form: proofToRenew,
    csrf: RENEW,
    submit: renew,
  }),
  page({
    path: '/authenticator/remove',
    session: 'proven',
    back: 'authenticator',
    form: proofToRemove,
    csrf: REMOVE,
    submit: remove,
  }),
]
