/** A request as seen by routes. */
export interface RouteRequest {
  method: string
  /** As received, percent-encoded, without the query. */
  path: string
  /** Without the question mark. */
  query: string
  /** Lower case, with its port. */
  host: string
  /** Names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  protocol: 'http' | 'https'
}

/** Returns a request with another path or query. A caller's own request may read its members from elsewhere: no spread copies these. */
export const withUrl = (
  { method, host, headers, protocol }: RouteRequest,
  { path, query }: Pick<RouteRequest, 'path' | 'query'>,
): RouteRequest => ({ method, path, query, host, headers, protocol })

/** Names in lower case, in output order; a name may repeat. */
export type HeaderPairs = [name: string, value: string][]

interface Common {
  /** Headers that routes and site rules add to the response. If a Function set the same header itself, its own wins. */
  headers: HeaderPairs
  /** Names among `headers` that override the Function's. */
  important: readonly string[]
  /** Default headers of the platform that a site rule removes. */
  unset: string[]
}

/** A request forwarded to something other than a file. */
interface Forwarded {
  /** Set over the request's own, by middleware and transforms. */
  requestHeaders: HeaderPairs
  /** Names of the request's own headers that are not forwarded. */
  requestHeadersRemoved: string[]
  /** Replaces a Function's 200, and no other status. */
  status: number | undefined
}

/** Returns the answer in place of a Function that failed: the site's own page for that status, if it has one. */
type Fail = (status: number) => Answer

/** How to answer a request. */
export type Answer = Common &
  (
    | {
        kind: 'asset'
        /** A path of `hasFile`. */
        path: string
        status: number
      }
    /** location: absolute, or relative to the request. */
    | { kind: 'redirect'; status: number; location: string }
    /** Only a status; 405 comes with `allow` among the headers. */
    | { kind: 'status'; status: number }
    | (Forwarded & {
        kind: 'external'
        /** Absolute, http or https. */
        url: string
      })
    | (Forwarded & {
        kind: 'function'
        /** The Function's path in the output. */
        path: string
        /** Path and query to call the Function with. */
        url: string
        fail?: Fail
      })
    | (Forwarded & {
        /** A page that may be cached; without a cache, treat it as a `function`. */
        kind: 'prerender'
        /** The Function's path in the output; a key of `OutputManifest.prerenders`. */
        path: string
        /** Path and query to call the Function with for this visitor only. */
        url: string
        /** Path to call it with for everybody: the one that `hit` names, or else the visitor's. */
        sharedPath: string
        /** The parameters that the page may vary by, in canonical order and spelling. */
        sharedQuery: string
        /** Those of them that routes captured from the path and from conditions. */
        sharedMatches: string
        /** True if the visitor must not get a cached page. */
        isBypassed: boolean
        fail: Fail
      })
    | {
        kind: 'middleware'
        /** The middleware Function's path in the output. */
        path: string
        /** Path and query to call it with. */
        url: string
        resume(result: MiddlewareResult): Answer
      }
    /** The middleware responded itself: its body follows this status and these headers. */
    | { kind: 'answered'; status: number }
    | {
        kind: 'not-found'
        /** The file to show with 404, if the site has one. */
        path: string | undefined
        /** True for a file with a hash in its name: an earlier deployment may still have it. */
        isHashed: boolean
      }
  )

/** The response of a middleware Function. */
export interface MiddlewareResult {
  status: number
  headers: HeaderPairs
}

/** Returns whether the deployment has a file at a path, decoded and without a leading slash. */
export type HasFile = (path: string) => boolean

/** The compiled routes of a deployment. Pure: does no I/O and keeps no state between requests. */
export interface Router {
  route(request: RouteRequest, hasFile: HasFile): Answer
}

/** Longer paths get 414, which bounds the cost of any pattern. */
export const PATH_BYTES_MAX = 2_048

const NO_NAMES: readonly string[] = []

/** Returns the members common to all answers. */
export function plain(headers: HeaderPairs = []): Common {
  return { headers, important: NO_NAMES, unset: [] }
}

/** Returns a 405 for all methods but GET and HEAD, the only ones that files support. */
export function refuseMethod(method: string): Answer | undefined {
  if (method === 'GET' || method === 'HEAD') return undefined
  return { ...plain([['allow', 'GET, HEAD']]), kind: 'status', status: 405 }
}

const FRAMING = new Set(['connection', 'content-length', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])

/** True if rules may set a header: it has a valid name and does not affect how the response is framed. */
export function isSettable(name: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) && !FRAMING.has(name)
}
