import { EXPANDED_LENGTH_MAX, requireAtMost } from './routing-limit.ts'

/** What a pattern captured: groups by number and by name. Absent ones are empty. */
export interface Captures {
  match: RegExpExecArray | null
  named: Readonly<Record<string, string>>
}

/** How a captured value is written where it lands. */
type Spelling = (value: string) => string

export type Template = (captures: Captures, spelling: Spelling) => string

const REFERENCE = /\$(\d+|[A-Za-z_]\w*)/g

/**
 * Compiles a text with `$1` and `$name`. A name counts as far as one is known that it begins with; what is not known stays
 * as it is written. What a text takes from a request has a limit (`withinLimits`).
 *
 * groups: how many the pattern has. names: of the pattern and of conditions.
 */
export function compileTemplate(text: string, groups: number, names: ReadonlySet<string>): Template {
  const known = [...names].toSorted((one, other) => other.length - one.length)
  const parts: (string | number | { name: string })[] = []
  let from = 0
  for (const reference of text.matchAll(REFERENCE)) {
    const [whole, key = ''] = reference
    const isNumber = /^\d/.test(key)
    const name = isNumber ? undefined : known.find((each) => key.startsWith(each))
    if (isNumber ? Number(key) > groups : name === undefined) continue
    parts.push(text.slice(from, reference.index), name === undefined ? Number(key) : { name })
    from = reference.index + (name === undefined ? whole.length : name.length + 1)
  }
  const rest = text.slice(from)
  if (parts.length === 0) return () => rest
  return ({ match, named }, spelling) => {
    let written = ''
    let expanded = 0
    for (const part of parts) {
      if (typeof part === 'string') {
        written += part
        continue
      }
      const value = typeof part === 'number' ? match?.[part] : (match?.groups?.[part.name] ?? named[part.name])
      if (value === undefined || value === '') continue
      requireAtMost((expanded += value.length), EXPANDED_LENGTH_MAX)
      written += spelling(value)
    }
    return written + rest
  }
}

/** In a path: as it was matched, but what a condition captured may hold anything. */
export const inPath: Spelling = (value) =>
  value.replaceAll(/[^\w\-.~!$&'()*+,;=:@/%[\]|]/gu, (character) => encodeURIComponent(character.toWellFormed()))

/** In a query: one value, whatever is in it. A path's encoding is undone first. */
export const inQuery: Spelling = (value) => {
  let decoded = value
  try {
    decoded = decodeURIComponent(value)
  } catch {
    // Not an encoded text: it is taken as it is.
  }
  // A slash may stand there, and frameworks compare it.
  return encodeURIComponent(decoded.toWellFormed()).replaceAll('%2F', '/')
}

/** In a header: no line break, and nothing that a header cannot hold. */
export const inHeader: Spelling = (value) =>
  value.replaceAll(/[^\t\x20-\x7E]/gu, (character) => encodeURIComponent(character.toWellFormed()))
