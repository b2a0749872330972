import { PATH_BYTES_MAX } from '@platform/build-output/answer'

/** As it is given and as it is sent: the edge answers 414 to a longer path, and a query is bounded by what headers may take. */
export const ENDPOINT_LENGTH_MAX = PATH_BYTES_MAX

/** The parameter of a sticky URL that holds its token. */
export const STICKY_PARAMETER = '__sticky'

/** What a sticky URL leads to, as a client will send it. */
export interface StickyEndpoint {
  /** Without dot segments, encoded. */
  path: string
  /** With its question mark; empty: none. */
  query: string
}

/** Reads an absolute path that may carry a query (D9, D87). Returns a sentence about what is wrong with any other text. */
export function readStickyEndpoint(text: string): StickyEndpoint | string {
  if (!text.startsWith('/')) return 'Expected a path that begins with a slash'
  if (!text.isWellFormed() || /\p{Cc}|\\|#/u.test(text))
    return 'Expected a path without backslashes, control characters, lone surrogates and a fragment'
  // The hash keeps what is in front of it: spaces at the very end would be cut off. Two slashes in front would be a host.
  const url = text.startsWith('//') ? undefined : new URL(`${text}#`, 'http://deployment')
  if (!url || url.pathname.startsWith('//')) return 'Expected a path that does not begin with two slashes'
  const { pathname: path, search: query } = url
  if (new URLSearchParams(query).has(STICKY_PARAMETER)) return `Expected a query without ${STICKY_PARAMETER}`
  // Dot segments are gone by now.
  return Math.max(text.length, path.length + query.length) > ENDPOINT_LENGTH_MAX
    ? `Expected a path and query of at most ${ENDPOINT_LENGTH_MAX} characters, counted as they are sent: encoded`
    : { path, query }
}
