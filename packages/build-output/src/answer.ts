/** A request as routes see it. */
export interface RouteRequest {
  method: string
  /** As it came, percent-encoded, without the query. */
  path: string
  /** Without the question mark. */
  query: string
  /** Lower case, with its port. */
  host: string
  /** Names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  protocol: 'http' | 'https'
}

/** Names in lower case, in the order to be written; a name may repeat. */
export type HeaderPairs = [name: string, value: string][]

interface Common {
  /** What routes and site rules add to the answer. Where a Function set the same header itself, its own stands. */
  headers: HeaderPairs
  /** Names among `headers` that replace what a Function set. */
  important: readonly string[]
  /** Headers that the platform sets by default and a site rule takes away. */
  unset: string[]
}

/** What is asked of something that is not a file. */
interface Forwarded {
  /** Set over the request's own, by middleware and transforms. */
  requestHeaders: HeaderPairs
  /** Names of the request's own headers that are not passed on. */
  requestHeadersRemoved: string[]
  /** Replaces a Function's 200, and nothing else. */
  status: number | undefined
}

/** What answers in place of a Function that failed: the site's own page for that status, where it has one. */
type Fail = (status: number) => Answer

/** What answers a request. */
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
    /** Nothing but a status; 405 comes with `allow` among the headers. */
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
        /** Path and query that the Function is called with. */
        url: string
        fail?: Fail
      })
    | (Forwarded & {
        /** A page that may be kept; whoever does not keep it takes it as a `function`. */
        kind: 'prerender'
        /** The Function's path in the output; a key of `OutputManifest.prerenders`. */
        path: string
        /** Path and query that the Function is called with for this visitor alone. */
        url: string
        /** Path that it is called with for everybody: the one that `hit` names, or else the visitor's. */
        sharedPath: string
        /** The parameters that the page may differ by, in one order, however they were written. */
        sharedQuery: string
        /** Those of them that routes took from the path and from conditions. */
        sharedMatches: string
        /** The visitor is one of those who get no kept page. */
        isBypassed: boolean
        fail: Fail
      })
    | {
        kind: 'middleware'
        /** The middleware Function's path in the output. */
        path: string
        /** Path and query that it is called with. */
        url: string
        resume(result: MiddlewareResult): Answer
      }
    /** The middleware answered by itself: its body follows this status and these headers. */
    | { kind: 'answered'; status: number }
    | {
        kind: 'not-found'
        /** The file to show with 404, where the site has one. */
        path: string | undefined
        /** True for a file with a hash in its name: an earlier deployment may still have it. */
        isHashed: boolean
      }
  )

/** What a middleware Function answered. */
export interface MiddlewareResult {
  status: number
  headers: HeaderPairs
}

/** Whether the deployment has a file at a path, decoded and without a leading slash. */
export type HasFile = (path: string) => boolean

/** Routes of a deployment, compiled. Pure: it does no I/O and keeps nothing between requests. */
export interface Router {
  route(request: RouteRequest, hasFile: HasFile): Answer
}

/** Longer paths are refused with 414, which bounds what any pattern can cost. */
export const PATH_BYTES_MAX = 2_048

const NO_NAMES: readonly string[] = []

/** The members that every answer has, without any header. */
export function plain(headers: HeaderPairs = []): Common {
  return { headers, important: NO_NAMES, unset: [] }
}

/** 405 for all but GET and HEAD, which are what files answer. */
export function refuseMethod(method: string): Answer | undefined {
  if (method === 'GET' || method === 'HEAD') return undefined
  return { ...plain([['allow', 'GET, HEAD']]), kind: 'status', status: 405 }
}

const FRAMING = new Set(['connection', 'content-length', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])

/** Whether rules may set a header: it has a valid name and does not say how the answer is framed. */
export function isSettable(name: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) && !FRAMING.has(name)
}
