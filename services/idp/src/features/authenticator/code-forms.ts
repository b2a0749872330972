import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'
import { fieldProblem } from '../../site/field-problem.ts'

interface CodeForms {
  action: string
  /** Hidden fields of both forms. */
  hidden: Markup
  /** Whether the page shows what went wrong, under the id `problem`. */
  hasProblem: boolean
}

/** Two forms with one field `code`: for the app's code, and for a recovery code. */
export function codeForms({ action, hidden, hasProblem }: CodeForms): Markup {
  return html`<form method="post" action="${action}">
      ${hidden}
      <label>
        Code
        <input
          class="code-entry"
          name="code"
          inputmode="numeric"
          autocomplete="one-time-code"
          required
          maxlength="10"
          autofocus
          ${fieldProblem(hasProblem ? { status: 401 } : undefined)}
        />
      </label>
      <button type="submit">Continue</button>
    </form>
    <details>
      <summary>Your app is not at hand?</summary>
      <form method="post" action="${action}">
        ${hidden}
        <label>
          Recovery code
          <input
            class="code-entry"
            name="code"
            autocomplete="off"
            autocapitalize="characters"
            spellcheck="false"
            required
            maxlength="40"
          />
        </label>
        <p class="soft">One of those you saved when you set up the app. Each works once.</p>
        <button type="submit" class="second">Use a recovery code</button>
      </form>
    </details>`
}
