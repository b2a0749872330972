/** True for ASCII that is unencoded in a path. Slash, backslash and percent stay encoded: decoding them changes the path. */
const isPlain = (code: number): boolean =>
  code > 0x20 && code < 0x7f && !'"#%/<>?\\^`{}'.includes(String.fromCharCode(code))

const ENCODED = Array.from({ length: 256 }, (_, code) => `%${code.toString(16).toUpperCase().padStart(2, '0')}`)
const UNUSUAL = /[^A-Za-z0-9\-_~/.!$&'()*+,;=:@]|\/[/.]/

/**
 * Returns the canonical spelling of a path for routes, middleware and look-ups, so that no encoding bypasses one of them.
 *
 * path: as received, without the query. Returns a path that begins with a slash, without dot segments, repeated slashes or
 * backslashes; printable ASCII that is allowed in a path is decoded, everything else encoded in upper case. An encoded slash
 * stays encoded, and never separates folders. Idempotent.
 */
export function normalizePath(path: string): string {
  if (path.startsWith('/') && !UNUSUAL.test(path)) return path
  return collapse(respell(path))
}

function respell(path: string): string {
  let spelled = ''
  for (let index = 0; index < path.length; index++) {
    let code = path.charCodeAt(index)
    if (code === 0x25) {
      const hex = path.slice(index + 1, index + 3)
      const isEscape = /^[0-9a-f]{2}$/i.test(hex)
      code = isEscape ? Number.parseInt(hex, 16) : code
      if (isEscape) index += 2
      spelled += isPlain(code) ? String.fromCharCode(code) : ENCODED[code]
    } else if (code === 0x2f || code === 0x5c) spelled += '/'
    else if (isPlain(code)) spelled += String.fromCharCode(code)
    // HTTP delivers a path's bytes as one character each.
    else if (code < 0x100) spelled += ENCODED[code]
    else {
      const character = String.fromCodePoint(path.codePointAt(index) ?? code)
      spelled += encodeURIComponent(character.toWellFormed())
      index += character.length - 1
    }
  }
  return spelled
}

function collapse(path: string): string {
  const kept: string[] = []
  const segments = path.split('/')
  for (const segment of segments) {
    if (segment === '..') kept.pop()
    else if (segment !== '' && segment !== '.') kept.push(segment)
  }
  const last = segments.at(-1)
  const isFolder = kept.length > 0 && (last === '' || last === '.' || last === '..')
  return `/${kept.join('/')}${isFolder ? '/' : ''}`
}

/**
 * Returns the name of the file or Function for a normalized path: decoded, without surrounding slashes. Returns undefined if no
 * file can have such a name: an encoded slash, or bytes that are not UTF-8.
 */
export function fileNameOf(path: string): string | undefined {
  const start = path.startsWith('/') ? 1 : 0
  const end = path.endsWith('/') && path.length > start ? path.length - 1 : path.length
  const name = path.slice(start, end)
  if (!name.includes('%')) return name
  if (/%(?:2f|5c|00)/i.test(name)) return undefined
  try {
    return decodeURIComponent(name)
  } catch {
    // Not UTF-8.
    return undefined
  }
}

/** Normalizes a path written by an author, in which letters beyond ASCII are text, not bytes. */
export function normalizeWrittenPath(path: string): string {
  return normalizePath(encodeText(path))
}

/** Encodes non-ASCII text only. */
export function encodeText(text: string): string {
  return text.replaceAll(/[^\0-\x7F]+/gu, (letters) => encodeURIComponent(letters.toWellFormed()))
}

/** Encodes what a URL's query cannot contain: spaces, control characters, `#` and bytes beyond ASCII. */
export function normalizeQuery(query: string): string {
  if (query === '') return query
  return query.replaceAll(/[^\x21-\x7E]|#/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return ENCODED[code] ?? encodeURIComponent(character.toWellFormed())
  })
}
