import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/**
 * Tells password managers whose password a form is about, if the page does not ask for the email address. A text field hidden
 * by CSS, since Chromium and others ignore `type=hidden`. Neither the keyboard nor a screen reader reaches it.
 */
export const usernameField = (email: string): Markup =>
  html`<input
    class="unseen"
    name="username"
    value="${email}"
    autocomplete="username"
    tabindex="-1"
    aria-hidden="true"
    readonly
  />`
