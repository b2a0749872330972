import { EXPANDED_LENGTH_MAX, requireAtMost } from './routing-limit.ts'

/** The captures of a pattern: groups by number and by name. Absent ones are empty. */
export interface Captures {
  match: RegExpExecArray | null
  named: Readonly<Record<string, string>>
}

/** Encodes a captured value for its destination. */
type Spelling = (value: string) => string

export type Template = (captures: Captures, spelling: Spelling) => string

const REFERENCE = /\$(\d+|[A-Za-z_]\w*)/g

/**
 * Compiles a text with `$1` and `$name`. The longest known name that the text begins with is used; unknown names stay as written.
 * The amount of text taken from a request is limited (`withinLimits`).
 *
 * groups: number of groups in the pattern. names: those of the pattern and of conditions.
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

/** For a path: as matched, but a condition may have captured anything. */
export const inPath: Spelling = (value) =>
  value.replaceAll(/[^\w\-.~!$&'()*+,;=:@/%[\]|]/gu, (character) => encodeURIComponent(character.toWellFormed()))

/** For a query: a single value, whatever it contains. Undoes a path's encoding first. */
export const inQuery: Spelling = (value) => {
  let decoded = value
  try {
    decoded = decodeURIComponent(value)
  } catch {
    // Not an encoded text: used as is.
  }
  // A slash is allowed in a query, and frameworks compare it.
  return encodeURIComponent(decoded.toWellFormed()).replaceAll('%2F', '/')
}

/** For a header: without line breaks and other characters that a header cannot contain. */
export const inHeader: Spelling = (value) =>
  value.replaceAll(/[^\t\x20-\x7E]/gu, (character) => encodeURIComponent(character.toWellFormed()))
