import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

interface DecisionBar {
  action: string
  /** Hidden fields of the form. */
  hidden: Markup
  /** The page warns of something: denying is then the plain thing to do. */
  isWarned?: boolean
}

/**
 * The form with which somebody allows or denies what the page describes, `decision` being `approve` or `deny`. It stays in
 * view however long the page is. It has no field, so Enter alone sends nothing.
 */
export const decisionBar = ({ action, hidden, isWarned = false }: DecisionBar): Markup => html`
  <form method="post" action="${action}" class="decision">
    ${hidden}
    <button type="submit" name="decision" value="approve" class="${isWarned ? 'second' : ''}">Allow</button>
    <button type="submit" name="decision" value="deny" class="${isWarned ? '' : 'second'}">Deny</button>
  </form>
`
