import { isUuid } from '@platform/runtime/is-uuid'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { moment } from '../../site/moment.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, type PageRequest, textField } from '../../site/page.ts'
import { readFlow, type ReturnTo, returnToPage } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { formActionOf } from '../authorize/waiting-client.ts'
import { upgradeSession } from '../sessions/sessions.ts'
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
      <dd>${isSynced ? 'Synced' : 'On one device'}</dd>
      <dt>Added</dt>
      <dd>${moment(createdAt, deps.now())}</dd>
      <dt>Last used</dt>
      <dd>${lastUsedAt ? moment(lastUsedAt, deps.now()) : 'Never'}</dd>
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

async function showPasskeys({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const held = await listPasskeys(deps, session.user.id)
  return answerPage(c, deps, {
    title: 'Passkeys',
    isWide: true,
    hasScript: true,
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

/** The flow that waits for the passkey. */
type Flow = ReturnTo | undefined

interface Adding {
  session: Session
  flow: Flow
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
          <input name="name" maxlength="64" autocomplete="off" aria-describedby="name-hint" />
        </label>
        <p class="soft" id="name-hint">
          Optional. Without one it is named after what keeps it, such as your password manager or this browser.
        </p>
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

const problems = {
  refused: 'This passkey could not be added. Try again.',
  present: 'This passkey is here already.',
  full: 'You have as many passkeys as an account can hold. Remove one first.',
}

const newPasskey = z.object({ credential: textField, name: textField })

/**
 * Adds the credential that the browser created; the script puts it into the form. It counts as a second factor, so the
 * session is upgraded.
 */
async function add({
  c,
  deps,
  session,
  target: flow,
  form,
}: FormCall<'fresh', typeof newPasskey, Flow>): Promise<Response> {
  const added = await addPasskey(deps, session, {
    answer: form.credential,
    name: form.name,
    nameOtherwise: describeBrowser(c.req.header('user-agent') ?? null),
  })
  if (added.kind !== 'added') return answerAdd(c, deps, { session, flow, problem: problems[added.kind] })
  await upgradeSession(c, deps, session, { amr: added.amr, authTime: session.authTime, ways: undefined })
  return redirect(c, flow?.url ?? `${deps.accountUrl}/passkeys`)
}

const chosen = z.object({ passkey: textField, name: textField })

// Forms of one passkey; those of other users are silently ignored.

async function rename({ c, deps, session, form }: FormCall<'any', typeof chosen>): Promise<Response> {
  const { passkey: passkeyId, name } = form
  if (isUuid(passkeyId)) await renamePasskey(deps, { userId: session.user.id, passkeyId, name })
  return redirect(c, `${deps.accountUrl}/passkeys`)
}

async function remove({ c, deps, session, form }: FormCall<'proven', typeof chosen>): Promise<Response> {
  const { passkey: passkeyId } = form
  const userId = session.user.id
  if (isUuid(passkeyId)) await removePasskeys(deps, { userId, passkeyId }, `user:${userId}`)
  return redirect(c, `${deps.accountUrl}/passkeys`)
}

const findFlow = ({ deps, field }: PageRequest): Flow => readFlow(deps, field('returnTo'))
const purposeOfChosen = ({ field }: PageRequest): string => purposeOf(field('passkey') ?? '')

export const passkeysPages = [
  page({ path: '/passkeys', session: 'any', back: 'passkeys', show: showPasskeys }),
  page({
    path: '/passkeys/add',
    session: 'fresh',
    back: (request) => returnToPage(request.deps, 'passkeys/add', findFlow(request)),
    find: findFlow,
    show: ({ c, deps, session, target: flow }) => answerAdd(c, deps, { session, flow }),
    form: newPasskey,
    csrf: ADD,
    submit: add,
  }),
  page({
    path: '/passkeys/rename',
    session: 'any',
    back: 'passkeys',
    form: chosen,
    csrf: purposeOfChosen,
    submit: rename,
  }),
  page({
    path: '/passkeys/remove',
    session: 'proven',
    back: 'passkeys',
    form: chosen,
    csrf: purposeOfChosen,
    submit: remove,
  }),
]
