import { PATH_BYTES_MAX } from '@platform/build-output/answer'

/** Applies both as given and as sent: the edge answers 414 to longer paths, and the limit on headers bounds the query. */
export const ENDPOINT_LENGTH_MAX = PATH_BYTES_MAX

/** The query parameter that holds a sticky URL's token. */
export const STICKY_PARAMETER = '__sticky'

/** The target of a sticky URL, as clients will send it. */
export interface StickyEndpoint {
  /** Encoded, without dot segments. */
  path: string
  /** With its question mark; empty: none. */
  query: string
}

/** Parses an absolute path with an optional query (D9, D87). Returns a sentence on what is wrong with any other text. */
export function readStickyEndpoint(text: string): StickyEndpoint | string {
  if (!text.startsWith('/')) return 'Expected a path that begins with a slash'
  if (!text.isWellFormed() || /\p{Cc}|\\|#/u.test(text))
    return 'Expected a path without backslashes, control characters, lone surrogates and a fragment'
  // The appended hash preserves trailing spaces, which would be cut off. Two leading slashes would be parsed as a host.
  const url = text.startsWith('//') ? undefined : new URL(`${text}#`, 'http://deployment')
  if (!url || url.pathname.startsWith('//')) return 'Expected a path that does not begin with two slashes'
  const { pathname: path, search: query } = url
  if (new URLSearchParams(query).has(STICKY_PARAMETER)) return `Expected a query without ${STICKY_PARAMETER}`
  // Dot segments have been resolved by now.
  return Math.max(text.length, path.length + query.length) > ENDPOINT_LENGTH_MAX
    ? `Expected a path and query of at most ${ENDPOINT_LENGTH_MAX} characters, counted as they are sent: encoded`
    : { path, query }
}
