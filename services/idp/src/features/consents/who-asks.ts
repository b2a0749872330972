import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'
import type { Client } from '../clients/client.ts'

/** The first rows of a list about the requesting client: its name, and the party that the operator registered it for. */
export const whoAsks = ({ name, requester }: Pick<Client, 'name' | 'requester'>): Markup => html`
  <dt>Application</dt>
  <dd>${name}</dd>
  ${
    requester &&
    html`<dt>Made for</dt>
      <dd>${requester}</dd>`
  }
`
