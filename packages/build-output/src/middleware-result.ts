import type { Answer, MiddlewareResult } from './answer.ts'
import { encodeText, normalizePath } from './normalize-path.ts'
import type { RequestState } from './request-state.ts'

const OVERRIDDEN = 'x-middleware-override-headers'
const REWRITE = 'x-middleware-rewrite'
const VALUE_PREFIX = 'x-middleware-request-'
/** They describe a response body that is not forwarded. */
const OF_THE_BODY = new Set([
  'content-length',
  'content-encoding',
  'content-type',
  'transfer-encoding',
  'connection',
  'date',
])

/**
 * Applies the decision of a middleware Function: request headers, a rewrite, and response headers.
 *
 * Returns an answer if it redirects or responds itself; undefined if routing continues. Implements the protocol of
 * `x-middleware-*`, none of which is forwarded.
 */
export function applyMiddleware({ status, headers }: MiddlewareResult, state: RequestState): Answer | undefined {
  const one = (name: string): string | undefined => headers.find(([each]) => each === name)?.[1]
  const rewrite = one(REWRITE)
  const goesOn = rewrite !== undefined || one('x-middleware-next') !== undefined
  for (const [name, value] of headers) {
    if (name.startsWith('x-middleware-') || name === 'location') continue
    if (goesOn && OF_THE_BODY.has(name)) continue
    state.setHeader(name, value)
  }
  const location = one('location')
  if (!goesOn || (location !== undefined && status >= 300 && status <= 399)) {
    if (location !== undefined && status >= 300 && status <= 399)
      return { ...state.common(), kind: 'redirect', status, location }
    if (location !== undefined) state.setHeader('location', location)
    return { ...state.common(), kind: 'answered', status }
  }
  const survivors = one(OVERRIDDEN)
  if (survivors !== undefined) overrideHeaders(survivors, headers, state)
  return rewrite === undefined ? undefined : applyRewrite(rewrite, state)
}

/** The list names all headers that the request keeps; their values are in separate headers. */
function overrideHeaders(survivors: string, headers: MiddlewareResult['headers'], state: RequestState): void {
  const names = new Set(survivors.split(',').map((name) => name.trim().toLowerCase()))
  for (const name of [...Object.keys(state.request.headers), ...state.requestHeaders.keys()])
    if (!names.has(name)) state.setRequestHeader(name, undefined)
  for (const [name, value] of headers) {
    if (!name.startsWith(VALUE_PREFIX)) continue
    const target = name.slice(VALUE_PREFIX.length)
    if (names.has(target)) state.setRequestHeader(target, value)
  }
}

function applyRewrite(rewrite: string, state: RequestState): Answer | undefined {
  const base = `${state.request.protocol}://${state.request.host}`
  const url = URL.parse(encodeText(rewrite), `${base}${state.path}`)
  if (url === null || !/^https?:$/.test(url.protocol)) return { ...state.common(), kind: 'status', status: 500 }
  state.query = url.search.slice(1)
  // Next.js writes https for its own host, whatever the visitor used.
  if (url.host === URL.parse(base)?.host || url.hostname === state.subject.host) {
    state.path = normalizePath(url.pathname)
    state.visiblePath = state.path
    return undefined
  }
  url.hash = ''
  return {
    ...state.common(),
    kind: 'external',
    url: url.href,
    requestHeaders: [...state.requestHeaders],
    requestHeadersRemoved: [...state.requestHeadersRemoved],
    status: state.status,
  }
}
