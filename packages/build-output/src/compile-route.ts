import { isSettable } from './answer.ts'
import { compileConditions, namesOf } from './conditions.ts'
import type { Route, VercelRoute } from './manifest.ts'
import { compileTemplate, inHeader, type Template } from './template.ts'

/** A route ready to be matched. */
export interface CompiledRoute {
  route: VercelRoute
  pattern: RegExp
  /** Lower-case text that every matching path begins with; often empty. It saves trying most patterns. */
  prefix: string
  /** True if the prefix is all that the pattern matches, whatever its case. */
  isLiteral: boolean
  /** True to also match the decoded path: for middleware, as in Next.js, and for letters that are always encoded in paths. */
  seesDecoded: boolean
  methods: ReadonlySet<string> | undefined
  conditions: ReturnType<typeof compileConditions>
  dest: { path: Template; query: Template | undefined; isAbsolute: boolean; keepsPath: boolean } | undefined
  headers: [name: string, value: Template][]
  location: Template | undefined
  transforms: { transform: NonNullable<Route['transforms']>[number]; args: Template[] }[]
}

/**
 * Returns the pattern of a route: anchored at both ends, whichever anchors it has itself, and case-insensitive unless the route
 * says otherwise. Throws SyntaxError.
 */
export function patternOfRoute({ src = '', caseSensitive }: Route): RegExp {
  const start = src.startsWith('^') ? '' : '^'
  const end = src.endsWith('$') ? '' : '$'
  return new RegExp(start + src + end, caseSensitive === true ? '' : 'i')
}

/** Compiles a route other than a `handle`. Throws SyntaxError for an invalid pattern. */
export function compileRoute(route: VercelRoute): CompiledRoute {
  const pattern = patternOfRoute(route)
  const groups = (new RegExp(`${pattern.source}|`).exec('')?.length ?? 1) - 1
  const names = new Set([
    ...[...pattern.source.matchAll(/\(\?<([A-Za-z_]\w*)>/g)].map(([, name]) => name ?? ''),
    ...namesOf(route.has ?? []),
    'wildcard',
  ])
  names.delete('')
  const template = (text: string) => compileTemplate(text, groups, names)
  const headers = Object.entries(route.headers ?? {}).map(([name, value]): [string, Template] => [
    name.toLowerCase(),
    template(inHeader(value)),
  ])
  const seesDecoded = route.middlewarePath !== undefined || /[^\0-\x7F]|\\u/.test(pattern.source)
  const location = headers.find(([name]) => name === 'location')?.[1]
  const { prefix, isWhole } = seesDecoded ? NO_LITERAL : literalOf(pattern.source)
  return {
    route,
    pattern,
    prefix: prefix.toLowerCase(),
    isLiteral: isWhole,
    seesDecoded,
    methods: route.methods && new Set(route.methods.map((method) => method.toUpperCase())),
    conditions: compileConditions(route.has ?? [], route.missing ?? []),
    dest: route.dest === undefined ? undefined : compileDest(route.dest, route.keepsPath === true, template),
    headers: headers.filter(([name]) => name !== 'location' && isSettable(name)),
    location,
    transforms: (route.transforms ?? []).map((transform) => ({
      transform,
      args: [transform.args ?? []].flat().map(template),
    })),
  }
}

function compileDest(dest: string, keepsPath: boolean, template: (text: string) => Template): CompiledRoute['dest'] {
  const index = dest.indexOf('?')
  return {
    path: template(index === -1 ? dest : dest.slice(0, index)),
    query: index === -1 ? undefined : template(dest.slice(index + 1)),
    isAbsolute: /^https?:\/\//i.test(dest),
    keepsPath,
  }
}

const NO_LITERAL = { prefix: '', isWhole: false }

/**
 * Returns the text that every match of a pattern begins with, '' if that is not obvious; and whether it is the whole match.
 *
 * source: of a pattern that begins with `^`.
 */
export function literalOf(source: string): { prefix: string; isWhole: boolean } {
  if (hasOuterAlternative(source)) return NO_LITERAL
  let prefix = ''
  let index = 1
  while (index < source.length) {
    let character = source[index] ?? ''
    let length = 1
    if (character === '\\') {
      character = source[index + 1] ?? ''
      length = 2
      if (/[A-Za-z0-9]/.test(character)) break
    } else if ('^$.*+?()[]{}|'.includes(character)) break
    // Other characters may be encoded in paths.
    if (!/[\w\-~/.!$&'()*+,;=:@[\]|]/.test(character)) break
    // It may be absent, or repeat.
    if ('*?{'.includes(source[index + length] || ' ')) break
    prefix += character
    index += length
  }
  return { prefix, isWhole: source.slice(index) === '$' }
}

function hasOuterAlternative(source: string): boolean {
  let depth = 0
  let isClass = false
  for (let index = 0; index < source.length; index++) {
    const character = source[index]
    if (character === '\\') index++
    else if (isClass) isClass = character !== ']'
    else if (character === '[') isClass = true
    else if (character === '(') depth++
    else if (character === ')') depth--
    else if (character === '|' && depth === 0) return true
  }
  return false
}
