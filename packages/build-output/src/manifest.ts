/** One route of config.json (Build Output API v3), validated. Unknown members are dropped. */
export interface Route {
  src?: string
  dest?: string
  headers?: Record<string, string>
  methods?: string[]
  status?: number
  has?: Condition[]
  missing?: Condition[]
  continue?: boolean
  override?: boolean
  check?: boolean
  important?: boolean
  caseSensitive?: boolean
  locale?: { redirect?: Record<string, string>; cookie?: string }
  transforms?: Transform[]
  middlewarePath?: string
  middlewareRawSrc?: string[]
  /** The phase that begins here; such an entry has no other members. */
  handle?: Phase
}

export type Phase = 'filesystem' | 'rewrite' | 'resource' | 'miss' | 'hit' | 'error'

/** Operations on a value; all present ones must hold. */
export interface ValueTest {
  eq?: string | number
  neq?: string
  inc?: string[]
  ninc?: string[]
  pre?: string
  suf?: string
  re?: string
  gt?: number
  gte?: number
  lt?: number
  lte?: number
}

export interface Condition {
  type: 'host' | 'header' | 'cookie' | 'query'
  key?: string
  /** A pattern, or an operation on the value; absent: the key must be present. */
  value?: string | ValueTest
}

export type Transform =
  | {
      type: 'request.headers' | 'request.query' | 'response.headers'
      op: 'append' | 'set' | 'delete'
      target: { key: string | ValueTest }
      args?: string | string[]
    }
  /** Another path that the Function sees. */
  | { type: 'request.path'; op: 'set'; args: string }

/** The Function at a path. */
interface OutputFunction {
  /** The path of the Function whose folder this is or links to; a key of `Output.functions`. */
  function: string
}

/** A worker in front of the files (Cloudflare Pages' advanced mode). */
export interface WorkerRoutes {
  /** Patterns of paths, in which `*` matches any text. Paths that match one of `exclude` go to the files. */
  include: string[]
  exclude: string[]
}

/** Headers of answers at a path, which may contain `*` and `:name`. */
export interface HeaderRule {
  path: string
  set: [name: string, value: string][]
  unset: string[]
}

/** A rule for visitors of some hosts. */
export interface HostHeaderRule extends HeaderRule {
  /** A pattern like `path`, with a port where only that is meant. */
  host: string
  /** The number of `headers` that come before it. */
  after: number
}

/** Rules of a site of plain files, from `_redirects`, `_headers` and the files themselves. */
export interface SiteRules {
  redirects: { from: string; to: string; status: number }[]
  headers: HeaderRule[]
  /**
   * Absent: none. Apart from `headers`, since an edge of an earlier release knows no hosts: it would keep search engines from production
   * by a rule for previews.
   */
  hostHeaders?: HostHeaderRule[]
  /** True for a single-page application: `index.html` answers navigation to what is not there. */
  isSinglePage?: true
}

/** `cleanUrls` and `trailingSlash` of vercel.json, as far as they are set. */
export interface UrlSpelling {
  /** false: `/about` does not stand for about.html. */
  cleanUrls?: boolean
  trailingSlash?: boolean
}

/** What vercel.json puts in front of a site of its own: plain files, a worker or a server. */
export interface VercelRules extends UrlSpelling {
  /** In phases, as those of Build Output, and without middleware. */
  routes: VercelRoute[]
}

export interface VercelRoute extends Route {
  /** The destination names the server's own code, which sees the visitor's path: only the query of `dest` counts. */
  keepsPath?: true
}

/** A deployment's image rules (`images` of config.json); patterns are regular expressions that must match from end to end. */
export interface ImageRules {
  /** Widths that `/_vercel/image` and `/_next/image` offer. */
  sizes: number[]
  /** Hosts of which any path may be a source. */
  domains: string[]
  remotePatterns: {
    protocol?: 'http' | 'https'
    hostname: string
    /** '': the protocol's default port. Absent: any. */
    port?: string
    pathname?: string
    search?: string
  }[]
  /** Absent: any path of the deployment may be a source. */
  localPatterns?: { pathname?: string; search?: string }[]
  /** Absent: any from 1 to 100. */
  qualities?: number[]
  /** In seconds. */
  minimumCacheTTL?: number
  /** Absent: both. */
  formats?: ('image/avif' | 'image/webp')[]
  dangerouslyAllowSVG?: boolean
  contentSecurityPolicy?: string
  contentDispositionType?: 'inline' | 'attachment'
}

/** How the responses of a Function are cached (Incremental Static Regeneration). */
export interface PrerenderRules {
  /** Seconds after which a page is regenerated. false: never. */
  expiration: number | false
  /** Seconds after which a page is no longer shown. Absent: it is shown while it is regenerated, however old. */
  staleExpiration?: number
  /** Pages with the same number are regenerated together. */
  group?: number
  /** SHA-256 of `bypassToken`, in base64url: visitors with the token get uncached pages. */
  bypassTokenHash?: string
  /** Requests that match one of these are answered by the Function itself. */
  bypassFor?: Condition[]
  /** Query parameters that pages may vary by. Absent: all of them. */
  allowQuery?: string[]
  /** Headers that pages may vary by, in lower case. Absent: none. */
  allowHeader?: string[]
  /** The Function gets those parameters in its query; otherwise in `x-now-route-matches`. */
  passQuery?: true
  /** Visitors get a response of 500 and above unchanged. */
  exposesErrorBody?: true
  /** Shown until a page has been generated: names one of `Output.fallbacks`. */
  fallback?: string
  /** Headers of the fallback, names in lower case. */
  initialHeaders: [name: string, value: string][]
  initialStatus?: number
  /** The Function that has the rest of a partially cached page, and the headers to call it with. */
  chain?: { path: string; headers: Record<string, string> }
}

/** A path that is requested on a schedule. */
export interface Cron {
  /** With its query. */
  path: string
  /** A cron expression of five fields, in UTC. */
  schedule: string
}

/**
 * How to serve a deployment: stored with it as JSON, and compiled by each edge. It names files by their path below the site's root,
 * without a leading slash, and contains no secrets.
 */
export interface OutputManifest {
  version: 1
  kind: 'static' | 'build-output' | 'worker' | 'server'
  /** Build Output: in the order of config.json. */
  routes: Route[]
  wildcard: { domain: string; value: string }[]
  /** static, and for the files behind a worker. */
  site: SiteRules | null
  /** static, worker and server: what comes in front of all the rest. Build Output has it among its own routes. */
  vercel?: VercelRules
  /** worker: the paths that it handles. */
  worker?: WorkerRoutes
  /** server: the folder of its hashed files, which the server itself does not serve. With a trailing slash. */
  staticFolder?: string
  /** By path without `.func`; a worker or server has exactly one Function. */
  functions: Record<string, OutputFunction>
  /** Functions whose responses are cached, by path; keys of `functions`. */
  prerenders?: Record<string, PrerenderRules>
  /** For Build Output with `images`, and servers of Next.js. */
  images?: ImageRules
  /** For Build Output with `crons`; without duplicates. */
  crons?: Cron[]
}
