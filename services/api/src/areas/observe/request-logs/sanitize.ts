import type { IncomingHttpHeaders } from 'node:http'

const REDACTED = '[redacted]'
const HEADERS_MAX = 60
const HEADER_LENGTH_MAX = 512
const TEXT_LENGTH_MAX = 2_048

/** Headers that carry credentials, whatever their values (A §2: sanitized headers). */
const secretHeaders = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-amz-security-token'])
/** Words that mark a header or query parameter as a credential. */
const secretWord =
  /token|secret|password|passwd|api-?key|access_?key|credential|signature|session|^access$|^sig$|^auth$|^code$|^key$/i

/** Text that Postgres can store, cut to `lengthMax` UTF-16 units. */
export const storable = (text: string, lengthMax = TEXT_LENGTH_MAX): string =>
  isPlain(text, lengthMax) ? text : text.slice(0, lengthMax).toWellFormed().replaceAll('\0', '\uFFFD')
const isPlain = (text: string, lengthMax: number): boolean => text.length <= lengthMax && /^[\x20-\x7e]*$/.test(text)

/** Headers as a log may hold them: lower-case names, credentials redacted, long values cut. */
export function sanitizeHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {}
  let count = 0
  for (const sentName of Object.keys(headers)) {
    const value = headers[sentName]
    if (value === undefined) continue
    if (count++ === HEADERS_MAX) break
    const { name, isSecret } = readName(sentName)
    const text = isSecret ? REDACTED : storable(typeof value === 'string' ? value : value.join(', '), HEADER_LENGTH_MAX)
    // A client may name a header __proto__.
    if (name === '__proto__') Object.defineProperty(kept, name, { value: text, enumerable: true, configurable: true })
    else kept[name] = text
  }
  return kept
}

interface HeaderName {
  /** In lower case, storable. */
  name: string
  isSecret: boolean
}
/** Parsed header names: the same few hundred occur again and again. */
const names = new Map<string, HeaderName>()
const NAMES_MAX = 1_000

function readName(sentName: string): HeaderName {
  let known = names.get(sentName)
  if (!known) {
    const name = storable(sentName.toLowerCase(), HEADER_LENGTH_MAX)
    known = { name, isSecret: secretHeaders.has(name) || secretWord.test(name) }
    if (names.size >= NAMES_MAX) names.clear()
    names.set(sentName, known)
  }
  return known
}

/** Redacts credentials in a query string (without `?`); order and escapes stay as received. */
export function sanitizeQuery(query: string): string {
  if (query === '') return query
  const parts = query.split('&').map((part) => {
    const end = part.indexOf('=')
    return end !== -1 && isSecretName(part.slice(0, end)) ? `${part.slice(0, end)}=${REDACTED}` : part
  })
  return storable(parts.join('&'))
}

function isSecretName(name: string): boolean {
  if (name.startsWith('__')) return true // the platform's own, such as __sticky
  try {
    return secretWord.test(decodeURIComponent(name))
  } catch {
    return secretWord.test(name)
  }
}
