import { lookup } from 'mrmime'
import { type Answer, type HasFile, type HeaderPairs, plain, refuseMethod, type RouteRequest } from './answer.ts'
import { isHashedPath } from './hashed-path.ts'
import { compileHost } from './host-pattern.ts'
import type { HeaderRule, SiteRules, UrlSpelling } from './manifest.ts'
import { fileNameOf, normalizePath, normalizeWrittenPath } from './normalize-path.ts'
import { EXPANDED_LENGTH_MAX, HEADERS_LENGTH_MAX, requireAtMost } from './routing-limit.ts'
import { type SiteRouter, siteRouter } from './site-router.ts'
import { inHeader } from './template.ts'

type Captures = Record<string, string | undefined>

const PLACEHOLDER = /:([A-Za-z]\w*)/g
const DYNAMIC = /\*|:[A-Za-z]/
/** True for a rule that would match its own target page: it applies after the files, as its author intends. */
export const isPageFallback = (from: string, to: string): boolean =>
  from.endsWith('/*') && /\/(?:index(?:\.html)?)?$/.test(to)

/**
 * Compiles a path with `*` and `:name` from `_redirects` or `_headers` to a pattern: case-sensitive, anchored at both ends. A name
 * matches one segment, `*` anything, as `:splat`.
 *
 * Throws SyntaxError if a name, or `*`, occurs twice.
 */
export function compilePath(path: string): RegExp {
  const escaped = path.replaceAll(/[-/\\^$+?.()|[\]{}]/g, String.raw`\$&`).replaceAll('*', '(?<splat>.*)')
  return new RegExp(`^${escaped.replaceAll(PLACEHOLDER, String.raw`(?<$1>[^/]+)`)}$`)
}

function fill(text: string, captures: Captures | undefined): string {
  if (captures === undefined) return text
  let expanded = 0
  return text.replaceAll(PLACEHOLDER, (whole, name: string) => {
    const value = (Object.hasOwn(captures, name) ? captures[name] : undefined) ?? whole
    requireAtMost((expanded += value.length), EXPANDED_LENGTH_MAX)
    return value
  })
}

interface Redirect {
  to: string
  status: number
  captures?: Captures
}

function compileRedirects(rules: SiteRules['redirects']) {
  const fixed = new Map<string, Redirect>()
  const patterns: { pattern: RegExp; to: string; status: number }[] = []
  const fallbacks: typeof patterns = []
  for (const { from, to, status } of rules) {
    const path = normalizeWrittenPath(from)
    // A fixed rule after a pattern must not overtake it.
    if (!DYNAMIC.test(path) && patterns.length === 0) {
      if (!fixed.has(path)) fixed.set(path, { to, status })
    } else if (status === 200 && isPageFallback(from, to)) fallbacks.push({ pattern: compilePath(path), to, status })
    else patterns.push({ pattern: compilePath(path), to, status })
  }
  const firstOf = (list: typeof patterns, path: string): Redirect | undefined => {
    for (const { pattern, to, status } of list) {
      const match = pattern.exec(path)
      if (match !== null) return { to, status, ...(match.groups === undefined ? {} : { captures: match.groups }) }
    }
  }
  return {
    find: (path: string) => fixed.get(path) ?? firstOf(patterns, path),
    findFallback: (path: string) => firstOf(fallbacks, path),
  }
}

/** The rules in the order of `_headers`. */
function inOrder({ headers, hostHeaders = [] }: SiteRules): (HeaderRule & { host?: string })[] {
  const rules: (HeaderRule & { host?: string })[] = [...headers]
  // From the last one on, so that `after` holds.
  for (const rule of hostHeaders.toReversed()) rules.splice(rule.after, 0, rule)
  return rules
}

function compileHeaders(site: SiteRules) {
  const compiled = inOrder(site).map(({ host, path, set, unset }) => ({
    matchHost: host === undefined ? undefined : compileHost(host),
    path: normalizeWrittenPath(path),
    pattern: DYNAMIC.test(path) ? compilePath(normalizeWrittenPath(path)) : undefined,
    set,
    unset: unset.map((name) => name.toLowerCase()),
  }))
  return (
    requestPath: string,
    request: RouteRequest,
  ): { headers: HeaderPairs; important: readonly string[]; unset: string[] } => {
    const common = plain()
    let length = 0
    for (const rule of compiled) {
      const match = rule.pattern?.exec(requestPath) ?? null
      if (rule.pattern === undefined ? rule.path !== requestPath : match === null) continue
      const inHost = rule.matchHost?.(request)
      if (rule.matchHost !== undefined && inHost === undefined) continue
      const captures = inHost === undefined ? match?.groups : { ...inHost, ...match?.groups }
      for (const name of rule.unset) {
        common.headers = common.headers.filter(([set]) => set !== name)
        if (!common.unset.includes(name)) common.unset.push(name)
      }
      for (const [name, value] of rule.set) {
        const filled = fill(value, captures)
        requireAtMost((length += name.length + filled.length), HEADERS_LENGTH_MAX)
        addHeader(common.headers, name, filled)
      }
    }
    return common
  }
}

/** Adds a header; values that several rules set are joined to one list, except for cookies. */
function addHeader(headers: HeaderPairs, name: string, value: string): void {
  const earlier = name === 'set-cookie' ? undefined : headers.find(([set]) => set === name)
  if (earlier === undefined) headers.push([name, value])
  else earlier[1] += `, ${value}`
}

/** Returns the target of a redirect, with the request's query unless it has one of its own. */
function locationOf(redirect: Redirect, query: string): string {
  const to = inHeader(fill(redirect.to, redirect.captures))
  const hashAt = to.indexOf('#')
  const [address, hash] = hashAt === -1 ? [to, ''] : [to.slice(0, hashAt), to.slice(hashAt)]
  return withQuery(address, query) + hash
}

const withQuery = (address: string, query: string): string =>
  query === '' || address.includes('?') ? address : `${address}?${query}`

/** Cloudflare Pages' URLs: `/about` for about.html, `/about/` for about/index.html, and a redirect from any other spelling. */
function findPage(path: string, hasFile: HasFile): { file: string } | { location: string } | undefined {
  const name = fileNameOf(path)
  if (name === undefined) return undefined
  if (path.endsWith('/')) {
    const file = name === '' ? 'index.html' : `${name}/index.html`
    if (hasFile(file)) return { file }
    if (path.endsWith('/index/')) return { location: path.slice(0, -'index/'.length) }
    return name !== '' && hasFile(`${name}.html`) ? { location: path.slice(0, -1) } : undefined
  }
  if (hasFile(name)) {
    if (!name.endsWith('.html')) return { file: name }
    if (path.endsWith('/index.html')) return { location: path.slice(0, -'index.html'.length) }
    const short = path.slice(0, -'.html'.length)
    return short.endsWith('/') || hasFile(name.slice(0, -'.html'.length)) ? { file: name } : { location: short }
  }
  if (path.endsWith('/index') && hasFile(`${name}.html`)) return { location: path.slice(0, -'index'.length) }
  if (hasFile(`${name}.html`)) return { file: `${name}.html` }
  return hasFile(`${name}/index.html`) ? { location: `${path}/` } : undefined
}

/**
 * Returns the file at a path in any spelling: of a rewrite, whose path visitors never see, and where vercel.json decides which spelling
 * redirects to which. hasClean: `/about` is about.html.
 */
function findRewritten(path: string, hasFile: HasFile, hasClean = true): string | undefined {
  const name = fileNameOf(path)
  if (name === undefined) return undefined
  const below = name === '' ? 'index.html' : `${name}/index.html`
  const clean = hasClean && name !== '' ? [`${name}.html`] : []
  const candidates = path.endsWith('/') ? [below, ...clean] : [name, ...clean, below]
  return candidates.find((file) => hasFile(file))
}

function findNotFoundPage(path: string, hasFile: HasFile): string | undefined {
  const segments = (fileNameOf(path) ?? '').split('/')
  while (segments.length > 0) {
    segments.pop()
    const file = [...segments, '404.html'].join('/')
    if (hasFile(file)) return file
  }
}

/** True if a browser is opening a page, not loading a part of one. */
function isNavigation({ headers }: RouteRequest, path: string): boolean {
  if (headers['sec-fetch-mode'] !== undefined) return headers['sec-fetch-mode'] === 'navigate'
  const type = lookup(path)
  if (type !== undefined && type !== 'text/html') return false
  const accept = String(headers['accept'] ?? '*/*')
  return accept.includes('text/html') || accept.includes('*/*')
}

/** True if a browser is opening a page of a single-page application: a path whose last name has no dot. */
function isAppNavigation({ headers }: RouteRequest, path: string): boolean {
  const last = path.slice(path.lastIndexOf('/', path.length - 2) + 1)
  const accept = String(headers['accept'] ?? '').toLowerCase()
  return !last.includes('.') && accept.includes('text/html')
}

/**
 * Compiles a site of plain files: the URLs and fallbacks that Cloudflare Pages documents, its `_redirects` and `_headers`.
 *
 * Redirects come before files, and so do rewrites (status 200), except for those from `…/*` to an index page, which apply to
 * missing files. `200.html` answers navigation if the site has no 404.html. spelling: of vercel.json, which then decides on all
 * redirects from one spelling of a URL to another.
 */
export function routeStaticSite(rules: SiteRules, spelling: UrlSpelling = {}): SiteRouter {
  const redirects = compileRedirects(rules.redirects)
  const headersOf = compileHeaders(rules)
  const isSpelled = spelling.cleanUrls !== undefined || spelling.trailingSlash !== undefined
  const findFile = (path: string, hasFile: HasFile): ReturnType<typeof findPage> => {
    if (!isSpelled) return findPage(path, hasFile)
    const file = findRewritten(path, hasFile, spelling.cleanUrls !== false)
    return file === undefined ? undefined : { file }
  }
  type Headers = ReturnType<typeof headersOf>
  const rewritten = (rule: Redirect, common: Headers, hasFile: HasFile): Answer | undefined => {
    const [to = ''] = fill(rule.to, rule.captures).split(/[?#]/)
    const file = findRewritten(normalizeWrittenPath(to), hasFile)
    return file === undefined ? undefined : { ...common, kind: 'asset', path: file, status: 200 }
  }

  return siteRouter({
    find(request, hasFile) {
      const path = normalizePath(request.path)
      const redirect = redirects.find(path)
      if (redirect !== undefined && redirect.status !== 200) {
        const location = locationOf(redirect, request.query)
        return { ...headersOf(path, request), kind: 'redirect', status: redirect.status, location }
      }
      if (redirect !== undefined) {
        const common = headersOf(path, request)
        const answer = () => rewritten(redirect, common, hasFile) ?? notFound(rules, path, request, common, hasFile)
        return refuseMethod(request.method) ?? answer()
      }
      const page = findFile(path, hasFile)
      if (page === undefined) return undefined
      const refused = refuseMethod(request.method)
      if (refused !== undefined) return refused
      return 'file' in page
        ? { ...headersOf(path, request), kind: 'asset', path: page.file, status: 200 }
        : {
            ...headersOf(path, request),
            kind: 'redirect',
            status: 308,
            location: withQuery(page.location, request.query),
          }
    },
    findRewritten(to, request, hasFile) {
      const file = findRewritten(normalizePath(to.path), hasFile)
      const path = normalizePath(request.path)
      // A page is no answer to a missing script, which an earlier deployment may have.
      if (file === undefined || (file.endsWith('.html') && isHashedPath(path))) return undefined
      return refuseMethod(request.method) ?? { ...headersOf(path, request), kind: 'asset', path: file, status: 200 }
    },
    answerRest(request, hasFile) {
      const path = normalizePath(request.path)
      const refused = refuseMethod(request.method)
      if (refused !== undefined) return refused
      const common = headersOf(path, request)
      const fallback = isHashedPath(path) ? undefined : redirects.findFallback(path)
      return (fallback && rewritten(fallback, common, hasFile)) ?? notFound(rules, path, request, common, hasFile)
    },
  })
}

function notFound(
  { isSinglePage }: SiteRules,
  path: string,
  request: RouteRequest,
  common: ReturnType<typeof plain>,
  hasFile: HasFile,
): Answer {
  if (isHashedPath(path)) return { ...common, kind: 'not-found', path: undefined, isHashed: true }
  if (isSinglePage && isAppNavigation(request, path))
    return { ...common, kind: 'asset', path: 'index.html', status: 200 }
  const page = findNotFoundPage(path, hasFile)
  if (page === undefined && hasFile('200.html') && isNavigation(request, path))
    return { ...common, kind: 'asset', path: '200.html', status: 200 }
  return { ...common, kind: 'not-found', path: page, isHashed: false }
}
