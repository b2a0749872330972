import type { IncomingHttpHeaders } from 'node:http'

const REDACTED = '[redacted]'
const HEADERS_MAX = 60
const HEADER_LENGTH_MAX = 512
const TEXT_LENGTH_MAX = 2_048

/** Headers that carry somebody's authority, whatever their values (A §2: sanitized headers). */
const secretHeaders = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-amz-security-token'])
/** Words that make a header or a query parameter one that carries authority. */
const secretWord =
  /token|secret|password|passwd|api-?key|access_?key|credential|signature|session|^access$|^sig$|^auth$|^code$|^key$/i

/** Text that Postgres stores, of at most `lengthMax` UTF-16 units. */
export const storable = (text: string, lengthMax = TEXT_LENGTH_MAX): string =>
  text.slice(0, lengthMax).toWellFormed().replaceAll('\0', '\uFFFD')

/** Headers as a log may hold them: names in lower case, values that carry authority redacted, long ones cut. */
export function sanitizeHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept = Object.entries(headers).flatMap(([given, value]) => {
    const name = storable(given.toLowerCase(), HEADER_LENGTH_MAX)
    if (value === undefined) return []
    if (secretHeaders.has(name) || secretWord.test(name)) return [[name, REDACTED] as const]
    return [[name, storable([value].flat().join(', '), HEADER_LENGTH_MAX)] as const]
  })
  return Object.fromEntries(kept.slice(0, HEADERS_MAX))
}

/** A query string without `?`, its order and escapes as they came; values that carry authority are redacted. */
export function sanitizeQuery(query: string): string {
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
