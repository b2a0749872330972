import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'

interface PasskeyForm {
  action: string
  hidden: Markup
  /** What the browser is asked for, as describePasskeyRequest gives it. */
  options: string
  button: string
}

/** The form by which the script sends what an authenticator signed; hidden until the script is there. */
export const passkeyForm = ({ action, hidden, options, button }: PasskeyForm): Markup =>
  html`<form method="post" action="${action}" data-passkey="get" data-options="${options}" hidden>
    ${hidden}
    <input type="hidden" name="credential" value="" />
    <p class="alert" role="alert" data-problem hidden></p>
    <button type="submit" class="second">${button}</button>
  </form>`
