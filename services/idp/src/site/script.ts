import { createHash } from 'node:crypto'
import type { Deps } from '../deps.ts'
import type { Endpoint } from '../http/app.ts'
import { documentOf } from '../http/document.ts'
import { timeWordsIn } from './time-words.ts'

/**
 * The only script. Passkeys need it: it asks the browser for a credential and sends it with an ordinary form. It also adds
 * buttons that show passwords and that copy, save or print recovery codes, and it tells times in the browser's time zone.
 * Elements that need it are hidden until it runs; everything else works without it.
 *
 * `form[data-passkey]` is `get` or `create`; `data-options` holds the request to the browser, in WebAuthn's JSON.
 *
 * `[data-take]` is `copy`, `save` or `print`: a button that does so with the list of codes; `data-text` of their group is the
 * content of a saved file.
 */
const js = `
const toBytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
const toText = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\\+/g, '-').replace(/\\//g, '_').replace(/=+$/, '')

const withBytes = (list) => (list ?? []).map((entry) => ({ ...entry, id: toBytes(entry.id) }))
function readOptions(form) {
  const options = JSON.parse(form.dataset.options)
  return {
    ...options,
    challenge: toBytes(options.challenge),
    ...(options.user && { user: { ...options.user, id: toBytes(options.user.id) } }),
    ...(options.excludeCredentials && { excludeCredentials: withBytes(options.excludeCredentials) }),
    ...(options.allowCredentials && { allowCredentials: withBytes(options.allowCredentials) }),
  }
}

function describe({ id, rawId, type, response }) {
  const fields = ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']
  const said = Object.fromEntries(
    fields.filter((name) => response[name]).map((name) => [name, toText(response[name])]),
  )
  if (response.attestationObject) {
    delete said.authenticatorData
    said.transports = response.getTransports?.() ?? []
  }
  return JSON.stringify({ id, rawId: toText(rawId), type, clientExtensionResults: {}, response: said })
}

const words = {
  // Browsers tell a user who changed their mind and a key that cannot verify its user apart to nobody but the user.
  NotAllowedError: {
    get: 'No passkey was used. Try again, or take another way. A security key takes a PIN or a fingerprint: one without does not sign you in.',
    create: 'No passkey was made. Try again when you are ready. A security key takes a PIN or a fingerprint: if yours has none, set a PIN for it in the settings of your browser or system, or use another device.',
  },
  InvalidStateError: { create: 'This device holds a passkey for your account already.' },
  SecurityError: { get: 'Passkeys do not work at this address.', create: 'Passkeys do not work at this address.' },
}
function explain(form, error) {
  const kind = form.dataset.passkey
  const place = form.querySelector('[data-problem]')
  place.textContent = words[error.name]?.[kind] ?? 'Your browser could not do this. Try again, or use another browser.'
  place.hidden = false
}

function send(form, credential) {
  form.elements.credential.value = describe(credential)
  const stay = document.querySelector('input[type=checkbox][name=stay]')
  if (stay) form.elements.stay.value = stay.checked ? 'on' : ''
  form.submit()
}

let waiting
/** Offers passkeys in the list that the email field opens, as long as the page is open. A page without one has the button. */
async function offerInField(form) {
  if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return
  waiting = new AbortController()
  try {
    const publicKey = readOptions(form)
    send(form, await navigator.credentials.get({ publicKey, mediation: 'conditional', signal: waiting.signal }))
  } catch {
    // Withdrawn in favour of the button, or nobody took it up. The form is still there.
  }
}

async function ask(form) {
  waiting?.abort()
  form.querySelector('[data-problem]').hidden = true
  const publicKey = readOptions(form)
  try {
    const credentials = navigator.credentials
    send(form, await (form.dataset.passkey === 'get' ? credentials.get({ publicKey }) : credentials.create({ publicKey })))
  } catch (error) {
    explain(form, error)
  }
}

/** A button that shows what was typed into the passwords of a form. They are hidden as it is sent, or the browser would keep them as text. */
function offerToShow(form, fields) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'reveal'
  button.textContent = fields.length === 1 ? 'Show password' : 'Show passwords'
  const show = (isShown) => {
    for (const field of fields) field.type = isShown ? 'text' : 'password'
    button.setAttribute('aria-pressed', isShown)
  }
  show(false)
  button.addEventListener('click', () => show(button.getAttribute('aria-pressed') === 'false'))
  form.addEventListener('submit', () => show(false))
  fields.at(-1).closest('.field, form > label').after(button)
}
for (const form of document.forms) {
  const fields = [...form.querySelectorAll('input[type=password]')]
  if (fields.length > 0) offerToShow(form, fields)
}

for (const place of document.querySelectorAll('[data-without-script]')) place.hidden = true
for (const place of document.querySelectorAll('[data-with-passkeys]')) place.hidden = !globalThis.PublicKeyCredential
for (const form of document.querySelectorAll('form[data-passkey]')) {
  if (!globalThis.PublicKeyCredential) {
    for (const place of document.querySelectorAll('[data-without-passkeys]')) place.hidden = false
    continue
  }
  form.hidden = false
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void ask(form)
  })
  if (form.dataset.passkey === 'get' && document.querySelector('[autocomplete~=webauthn]')) void offerInField(form)
}

async function copyCodes(list, said) {
  try {
    await navigator.clipboard.writeText([...list.children].map((item) => item.textContent).join('\\n'))
    said.textContent = 'Copied.'
  } catch {
    // Refused, or not there: browsers have no clipboard for pages on plain http.
    getSelection().selectAllChildren(list)
    said.textContent = 'Your browser does not let this page copy. The codes are selected: copy them yourself.'
  }
}

function saveCodes(text) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  link.download = 'recovery-codes.txt'
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

for (const group of document.querySelectorAll('[data-text]')) {
  group.hidden = false
  const [list, said] = [document.querySelector('ol.codes'), group.querySelector('[role=status]')]
  const takes = { copy: () => copyCodes(list, said), save: () => saveCodes(group.dataset.text), print: () => print() }
  for (const button of group.querySelectorAll('[data-take]')) button.addEventListener('click', takes[button.dataset.take])
}

${String(timeWordsIn)}
const page = document.documentElement
// By the clock of the server: the one here may be wrong.
const ahead = Date.parse(page.dataset.now) - Date.now()
function tellTimes(times, inWords) {
  for (const time of times) {
    const { rough, exact } = inWords(new Date(time.dateTime), new Date(Date.now() + ahead))
    time.firstElementChild.textContent = rough
    time.lastElementChild.textContent = exact
  }
}
const times = document.querySelectorAll('time')
if (times.length > 0) {
  const inWords = timeWordsIn()
  tellTimes(times, inWords)
  setInterval(tellTimes, 60_000, times, inWords)
}
// What a pointer or the focus has brought up goes away by Escape (WCAG 1.4.13).
addEventListener('keydown', ({ key }) => page.classList.toggle('dismissed', key === 'Escape'))
addEventListener('pointerover', () => page.classList.remove('dismissed'))
`

const name = createHash('sha256').update(js).digest('hex').slice(0, 16)

/** Path of the script; its name changes with its content, so it may be cached for ever. */
export const scriptPath = ({ accountPath }: Pick<Deps, 'accountPath'>): string => `${accountPath}/script.${name}.js`

const script = documentOf(js, {
  type: 'text/javascript; charset=utf-8',
  cacheControl: 'public, max-age=31536000, immutable',
})

export const scriptEndpoint = (deps: Pick<Deps, 'accountPath'>): Endpoint => ({
  path: scriptPath(deps),
  cors: false,
  document: () => script,
})
