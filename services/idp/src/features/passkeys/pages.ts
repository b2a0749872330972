import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { csrfOfSession, requireCsrfOfSession } from '../../site/csrf.ts'
import { moment } from '../../site/moment.ts'
import { answerPage, type Markup, pageEndpoint } from '../../site/answer-page.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { readFlow, type ReturnTo, returnToPage } from '../../site/return-to.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { requireFreshSession, requireProvenSession, requireSession } from '../sessions/fresh-session.ts'
import { findSession, goOnAs, type Session } from '../sessions/sessions.ts'
import { formActionOf } from '../sign-in/waiting-client.ts'
import {
  addPasskey,
  describeNewPasskey,
  listPasskeys,
  type Passkey,
  removePasskeys,
  renamePasskey,
} from './passkeys.ts'

const ADD = 'add-passkey'
const purposeOf = (passkeyId: string): string => `passkey\n${passkeyId}`

function passkeyItem(deps: Deps, session: Session, { id, name, isSynced, createdAt, lastUsedAt }: Passkey): Markup {
  const hidden = html`<input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(id))}" />
    <input type="hidden" name="passkey" value="${id}" />`
  return html`<li>
    <h2>${name}</h2>
    <dl>
      <dt>Kept</dt>
      <dd>${isSynced ? 'On your devices, in step' : 'On one device'}</dd>
      <dt>Added</dt>
      <dd>${moment(createdAt)}</dd>
      <dt>Last used</dt>
      <dd>${lastUsedAt ? moment(lastUsedAt) : 'Never'}</dd>
    </dl>
    <details>
      <summary>Rename or remove<span class="unseen"> ${name}</span></summary>
      <form method="post" action="${deps.accountUrl}/passkeys/rename">
        ${hidden}
        <label>
          Name
          <input name="name" value="${name}" required maxlength="64" autocomplete="off" />
        </label>
        <button type="submit" class="second small">Rename</button>
      </form>
      <form method="post" action="${deps.accountUrl}/passkeys/remove">
        ${hidden}
        <p class="soft">Once removed it signs nobody in. Delete it on your device as well.</p>
        <button type="submit" class="second small" aria-label="Remove ${name}">Remove</button>
      </form>
    </details>
  </li>`
}

/** GET {account_url}/passkeys. */
async function showPasskeys(c: Ctx, deps: Deps): Promise<Response> {
  const session = await findSession(c, deps)
  if (!session) return redirectToSignIn(c, deps, returnToPage(deps, 'passkeys'))
  const held = await listPasskeys(deps, session.user.id)
  return answerPage(c, deps, {
    title: 'Passkeys',
    content: html`
      <p class="soft">
        A passkey signs you in with your fingerprint, your face or the PIN of your device: no password, no code.
      </p>
      ${
        held.length === 0
          ? html`<p class="empty">You have no passkey yet.</p>`
          : html`<ul class="items">
              ${held.map((passkey) => passkeyItem(deps, session, passkey))}
            </ul>`
      }
      <p class="after"><a class="button" href="${deps.accountUrl}/passkeys/add">Add a passkey</a></p>
      <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>
    `,
  })
}

interface Adding {
  session: Session
  /** What waits for the passkey. */
  flow: ReturnTo | undefined
  problem?: string
}

async function answerAdd(c: Ctx, deps: Deps, { session, flow, problem }: Adding): Promise<Response> {
  const options = await describeNewPasskey(deps, session)
  return answerPage(c, deps, {
    title: 'Add a passkey',
    status: problem === undefined ? 200 : 400,
    hasScript: true,
    formAction: flow && (await formActionOf(deps, flow)),
    content: html`
      <p class="soft">Your device asks for your fingerprint, your face or its PIN, and keeps the passkey.</p>
      ${problem === undefined ? '' : html`<p class="alert" role="alert">${problem}</p>`}
      <p class="empty" data-without-script>Adding a passkey takes JavaScript, which your browser has turned off.</p>
      <p class="empty" data-without-passkeys hidden>
        This browser knows no passkeys. Try a newer one, or another device.
      </p>
      <form
        method="post"
        action="${deps.accountUrl}/passkeys/add"
        data-passkey="create"
        data-options="${options}"
        hidden
      >
        <input type="hidden" name="csrf" value="${csrfOfSession(session, ADD)}" />
        ${flow && html`<input type="hidden" name="returnTo" value="${flow.url}" />`}
        <input type="hidden" name="credential" value="" />
        <label>
          Name
          <input
            name="name"
            value="${describeBrowser(c.req.header('user-agent') ?? null)}"
            maxlength="64"
            autocomplete="off"
            required
            aria-describedby="name-hint"
          />
        </label>
        <p class="soft" id="name-hint">So that you know later which one it is.</p>
        <p class="alert" role="alert" data-problem hidden></p>
        <button type="submit">Add a passkey</button>
      </form>
      <p class="back">
        ${
          flow
            ? html`<a href="${flow.url}">Cancel</a>`
            : html`<a href="${deps.accountUrl}/passkeys">Back to your passkeys</a>`
        }
      </p>
    `,
  })
}

/** GET {account_url}/passkeys/add. */
async function showAdd(c: Ctx, deps: Deps): Promise<Response> {
  const flow = readFlow(deps, c.req.query('returnTo'))
  const fresh = await requireFreshSession(c, deps, 'passkeys/add', flow)
  return 'redirect' in fresh ? fresh.redirect : answerAdd(c, deps, { session: fresh.session, flow })
}

const problems = {
  refused: 'This passkey could not be added. Try again.',
  present: 'This passkey is here already.',
  full: 'You have as many passkeys as an account can hold. Remove one first.',
}

/**
 * POST {account_url}/passkeys/add: the credential that the browser made, put into the form by the script. The session has
 * shown a second factor by it, and goes on as one that has.
 */
async function add(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const flow = readFlow(deps, form.get('returnTo'))
  const fresh = await requireFreshSession(c, deps, 'passkeys/add', flow)
  if ('redirect' in fresh) return fresh.redirect
  const { session } = fresh
  requireCsrfOfSession(c, deps, form, session, ADD)
  const added = await addPasskey(deps, session, {
    answer: form.get('credential') ?? '',
    name: form.get('name') ?? '',
    nameOtherwise: describeBrowser(c.req.header('user-agent') ?? null),
  })
  if (added.kind !== 'added') return answerAdd(c, deps, { session, flow, problem: problems[added.kind] })
  await goOnAs(c, deps, session, { amr: added.amr, authTime: session.authTime })
  return redirect(c, flow?.url ?? `${deps.accountUrl}/passkeys`)
}

type Change = (deps: Deps, of: { userId: string; passkeyId: string; name: string }) => Promise<void>

/** A form of one passkey; those of other people are left alone, without a word. */
const changeBy =
  (change: Change, requireSuch: typeof requireSession) =>
  async (c: Ctx, deps: Deps): Promise<Response> => {
    const form = await readForm(c)
    const found = await requireSuch(c, deps, 'passkeys')
    if ('redirect' in found) return found.redirect
    const { session } = found
    const passkeyId = form.get('passkey') ?? ''
    requireCsrfOfSession(c, deps, form, session, purposeOf(passkeyId))
    if (isUuid(passkeyId)) await change(deps, { userId: session.user.id, passkeyId, name: form.get('name') ?? '' })
    return redirect(c, `${deps.accountUrl}/passkeys`)
  }

const remove: Change = (deps, { userId, passkeyId }) => removePasskeys(deps, { userId, passkeyId }, `user:${userId}`)

export const passkeysEndpoints = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint[] => [
  pageEndpoint(`${accountPath}/passkeys`, { GET: showPasskeys }),
  pageEndpoint(`${accountPath}/passkeys/add`, { GET: showAdd, POST: add }),
  pageEndpoint(`${accountPath}/passkeys/rename`, { POST: changeBy(renamePasskey, requireSession) }),
  pageEndpoint(`${accountPath}/passkeys/remove`, { POST: changeBy(remove, requireProvenSession) }),
]
