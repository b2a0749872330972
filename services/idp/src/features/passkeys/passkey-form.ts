import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'

interface PasskeyForm {
  action: string
  hidden: Markup
  /** Options for the browser, from describePasskeyRequest. */
  options: string
  button: string
  /** The page also takes a password, in a form above. */
  isAlternative?: boolean
}

/** The form by which the script sends the authenticator's signature; hidden until the script is loaded. */
export const passkeyForm = ({ action, hidden, options, button, isAlternative = false }: PasskeyForm): Markup =>
  html`<form method="post" action="${action}" data-passkey="get" data-options="${options}" hidden>
    ${hidden}
    <input type="hidden" name="credential" value="" />
    ${isAlternative ? html`<p class="or">or</p>` : ''}
    <p class="alert" role="alert" data-problem hidden></p>
    <button type="submit" class="second">${button}</button>
  </form>`
