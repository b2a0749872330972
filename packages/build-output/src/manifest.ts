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
  /** The phase that begins here; such an entry has nothing else. */
  handle?: Phase
}

export type Phase = 'filesystem' | 'rewrite' | 'resource' | 'miss' | 'hit' | 'error'

/** Operations on a value; all that are given must hold. */
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
  /** A pattern, or an operation on the value; absent: the key is there. */
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

/** What answers at a Function's path. */
interface OutputFunction {
  /** The path of the Function whose folder this is or links to; a key of `Output.functions`. */
  function: string
}

/** A worker that answers in front of the files (Cloudflare Pages' advanced mode). */
export interface WorkerRoutes {
  /** Patterns of paths, in which `*` is any text. A path that one of `exclude` matches is the files'. */
  include: string[]
  exclude: string[]
}

/** What `_redirects`, `_headers` and the files themselves say of a site of plain files. */
export interface SiteRules {
  redirects: { from: string; to: string; status: number }[]
  headers: { path: string; set: [name: string, value: string][]; unset: string[] }[]
}

/** What a deployment says of its images (`images` of config.json); patterns are regular expressions that match from end to end. */
export interface ImageRules {
  /** Widths that `/_vercel/image` and `/_next/image` make. */
  sizes: number[]
  /** Hosts, any path of which may be a source. */
  domains: string[]
  remotePatterns: {
    protocol?: 'http' | 'https'
    hostname: string
    /** '': the port of the protocol. Absent: any. */
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

/** How the answers of a Function are kept (Incremental Static Regeneration). */
export interface PrerenderRules {
  /** Seconds from its making until a page is made anew. false: never. */
  expiration: number | false
  /** Seconds from its making after which it is not shown any more. Absent: it is shown while it is made anew, however old. */
  staleExpiration?: number
  /** Pages of one number are made anew together. */
  group?: number
  /** SHA-256 of `bypassToken`, in base64url: who knows the token sees pages as they would be made now. */
  bypassTokenHash?: string
  /** Requests for which one of these holds are answered by the Function itself. */
  bypassFor?: Condition[]
  /** Parameters of the query that pages may differ by. Absent: all of them. */
  allowQuery?: string[]
  /** Headers that pages may differ by, in lower case. Absent: none. */
  allowHeader?: string[]
  /** The Function gets those parameters in its query; else in `x-now-route-matches`. */
  passQuery?: true
  /** An answer of 500 and more reaches the visitor as it is. */
  exposesErrorBody?: true
  /** What is shown until a page was made: names one of `Output.fallbacks`. */
  fallback?: string
  /** Headers of the fallback, names in lower case. */
  initialHeaders: [name: string, value: string][]
  initialStatus?: number
  /** The Function that has the rest of a page which is kept in part, and the headers that it is asked with. */
  chain?: { path: string; headers: Record<string, string> }
}

/** A path that is asked for by the clock. */
export interface Cron {
  /** With its query. */
  path: string
  /** A cron expression of five fields, in UTC. */
  schedule: string
}

/**
 * How a deployment is served: what is stored with it, as JSON, and compiled by each edge. It names files by their path below the
 * site's root, without a leading slash, and holds no secret.
 */
export interface OutputManifest {
  version: 1
  kind: 'static' | 'build-output' | 'worker' | 'server'
  /** Build Output: in the order of config.json. */
  routes: Route[]
  wildcard: { domain: string; value: string }[]
  /** static, and the files behind a worker. */
  site: SiteRules | null
  /** worker: which paths are its. */
  worker?: WorkerRoutes
  /** server: the folder of its files under hashed names, which are no matter of the server. With a slash at its end. */
  staticFolder?: string
  /** By path without `.func`; of a worker or server the one Function that there is. */
  functions: Record<string, OutputFunction>
  /** Functions whose answers are kept, by path; keys of `functions`. */
  prerenders?: Record<string, PrerenderRules>
  /** Build Output that has `images`, and servers of Next.js. */
  images?: ImageRules
  /** Build Output that has `crons`; no two are the same. */
  crons?: Cron[]
}
