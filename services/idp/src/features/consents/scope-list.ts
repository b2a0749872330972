import { isScope } from '@platform/auth/scopes'
import { html } from 'hono/html'
import type { Markup } from '../../http/page.ts'
import { scopeWords } from './scope-words.ts'

/** The scopes of a request as a list for people; each also carries its name, for who knows it. */
export const scopeList = (scopes: readonly string[]): Markup => html`
  <ul class="scopes">
    ${scopes.map((scope) => html`<li title="${scope}">${isScope(scope) ? scopeWords[scope] : scope}</li>`)}
  </ul>
`
