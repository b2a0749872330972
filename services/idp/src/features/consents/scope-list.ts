import { apiScopes, isScope, scopeCatalogue } from '@platform/auth/scopes'
import { html } from 'hono/html'
import type { Markup } from '../../site/answer-page.ts'
import { type ScopeEffect, scopeWords } from './scope-words.ts'

const marks: Partial<Record<ScopeEffect, string>> = {
  deletes: 'Deletes',
  changes: 'Changes',
  spends: 'Costs money',
  stays: 'Lasting',
}

interface Line {
  scope: string
  effect: ScopeEffect
  words: string
}

/** A scope that has left the catalogue counts as a change, since nobody knows its effect. */
const lineOf = (scope: string): Line => {
  const [effect, words] = isScope(scope) ? scopeWords[scope] : (['changes', scope] as const)
  return { scope, effect, words }
}

const resourceOf = (scope: string): string => scope.slice(0, scope.lastIndexOf(':') + 1)
/** In the order of the catalogue; OpenID Connect scopes belong to no resource and come last. */
const resources = [...new Set([...apiScopes.map(resourceOf), ''])]
const effects: readonly ScopeEffect[] = ['deletes', 'changes', 'spends', 'stays', 'reads', 'identity']

const compareLines = (a: Line, b: Line): number =>
  resources.indexOf(resourceOf(a.scope)) - resources.indexOf(resourceOf(b.scope)) ||
  effects.indexOf(a.effect) - effects.indexOf(b.effect)

const row = ({ scope, effect, words }: Line): Markup => html`
  <li title="${scope}">
    <span>${words}</span>
    ${marks[effect] && html`<span class="badge${effect === 'deletes' ? ' danger' : ''}">${marks[effect]}</span>`}
  </li>
`

function inOneSentence(lines: readonly Line[]): Line {
  const words = lines.map((line) => line.words)
  const last = words.pop() ?? ''
  return {
    scope: lines.map(({ scope }) => scope).join(' '),
    effect: 'identity',
    words: `See ${words.length === 0 ? '' : `${words.join(', ')}, and `}${last}`,
  }
}

const section = (heading: string, lines: readonly Line[]): Markup | '' =>
  lines.length === 0
    ? ''
    : html`<h3>${heading}</h3>
        <ul class="scopes">
          ${lines.map(row)}
        </ul>`

/** A scope that is in the catalogue no more comes first, since nobody knows what it does. */
function linesOf(scopes: readonly string[]): Line[] {
  const held = new Set(scopes)
  const known = scopeCatalogue.filter((scope) => held.has(scope))
  const unknown = scopes.filter((scope) => !isScope(scope))
  return [...unknown, ...known].map(lineOf)
}

/** The lines of scopes with the user's identity as one line, those with the gravest effect first. */
export function weightiestOf(scopes: readonly string[]): string[] {
  const lines = linesOf(scopes)
  const identity = lines.filter(({ effect }) => effect === 'identity')
  return [
    ...lines.filter(({ effect }) => effect !== 'identity'),
    ...(identity.length > 0 ? [inOneSentence(identity)] : []),
  ]
    .toSorted((a, b) => effects.indexOf(a.effect) - effects.indexOf(b.effect))
    .map(({ words }) => words)
}

/**
 * Lists scopes for people. The request does not affect the order: first scopes that change or delete something, each line
 * marked, then those that only read, and finally one line for the user's identity. Nothing is folded or scrolled away. Each
 * line carries the scope's name.
 */
export function scopeList(scopes: readonly string[]): Markup {
  const lines = linesOf(scopes).toSorted(compareLines)
  const identity = lines.filter(({ effect }) => effect === 'identity')
  const reading = lines.filter(({ effect }) => effect === 'reads')
  const acting = lines.filter(({ effect }) => effect !== 'reads' && effect !== 'identity')
  return html`
    ${section('Act for you', acting)} ${section('Read', reading)}
    ${section('Know who you are', identity.length === 0 ? [] : [inOneSentence(identity)])}
  `
}
