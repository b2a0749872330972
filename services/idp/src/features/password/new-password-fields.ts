import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { PASSWORD_LENGTH_MIN } from '../accounts/passwords.ts'

/**
 * The fields `new` and `again` of a form that sets a password: without scripts a password cannot be shown, so it is typed
 * twice. problem: why they were refused.
 */
export const newPasswordFields = (problem?: { status: number }): Markup => html`
  <label>
    New password
    <input
      type="password"
      name="new"
      autocomplete="new-password"
      minlength="${PASSWORD_LENGTH_MIN}"
      required
      ${fieldProblem(problem, 'rules')}
    />
  </label>
  <p class="soft" id="rules">
    At least ${PASSWORD_LENGTH_MIN} characters. A few words in a row are easy to remember and hard to guess. Passwords
    that many people use are refused, and your name is no password.
  </p>
  <label>
    New password, once more
    <input
      type="password"
      name="again"
      autocomplete="new-password"
      minlength="${PASSWORD_LENGTH_MIN}"
      required
      ${fieldProblem(problem)}
    />
  </label>
`
