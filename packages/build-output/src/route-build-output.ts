import {
  type Answer,
  type HasFile,
  type HeaderPairs,
  type MiddlewareResult,
  refuseMethod,
  type RouteRequest,
  type Router,
} from './answer.ts'
import { applyTransforms } from './apply-transforms.ts'
import { type CompiledRoute, compileRoute } from './compile-route.ts'
import { compileConditions } from './conditions.ts'
import { isHashedPath } from './hashed-path.ts'
import { redirectByLocale } from './locale-redirect.ts'
import type { OutputManifest, Phase, PrerenderRules, Route } from './manifest.ts'
import { applyMiddleware } from './middleware-result.ts'
import { encodeText, fileNameOf, normalizePath } from './normalize-path.ts'
import { canonicalQuery, mergeQueries, withQuery } from './query.ts'
import { RequestState } from './request-state.ts'
import { withinLimits } from './routing-limit.ts'
import { type Captures, inHeader, inPath, inQuery } from './template.ts'

type PhaseName = Phase | 'first'
/** Phases in execution order, whatever their order in config.json. `hit` and `error` run depending on the result. */
const ORDER = ['first', 'filesystem', 'rewrite', 'resource', 'miss'] as const

interface Found {
  kind: 'asset' | 'function'
  path: string
}

/** Shown if no `error` route names a page. */
const NOT_FOUND_PAGES = ['404.html', '404']

/** The result of a phase's routes: an answer, a file or Function, an end with a status, or nothing yet. */
type Outcome = { answer: Answer } | { found: Found } | { endsWith: number } | undefined

function compilePhases(routes: readonly Route[]): Record<PhaseName, CompiledRoute[]> {
  const phases: Record<PhaseName, CompiledRoute[]> = {
    first: [],
    filesystem: [],
    rewrite: [],
    resource: [],
    miss: [],
    hit: [],
    error: [],
  }
  let phase: PhaseName = 'first'
  for (const route of routes) {
    if (route.handle !== undefined) phase = route.handle
    else phases[phase].push(compileRoute(withEncodedDest(route)))
  }
  return phases
}

const withEncodedDest = (route: Route): Route =>
  route.dest === undefined ? route : { ...route, dest: encodeText(route.dest) }

/**
 * Compiles the routes of Build Output API v3.
 *
 * A request passes the routes before any `handle`, then files and Functions are looked up, then come `filesystem`, `rewrite`,
 * `resource` and `miss`, each followed by a look-up; a result gets the headers of `hit`, and without a result the routes of `error`
 * apply. Routes of `miss` with `check` are also tried at the first look-up that fails, before a rewrite or a catch-all page can
 * take the path: a missing `/_next/static/` file is not a page.
 */
export function routeBuildOutput({ routes, functions, prerenders = {}, wildcard }: OutputManifest): Router {
  const phases = compilePhases(routes)
  const missChecks = phases.miss.filter(({ route }) => route.check === true)
  const middlewares = new Set(routes.flatMap(({ middlewarePath }) => middlewarePath?.replace(/^\//, '') ?? []))
  const callable = new Set(Object.keys(functions).filter((path) => !middlewares.has(path)))
  const kept = new Map(Object.entries(prerenders).map(([path, rules]) => [path, compilePrerender(rules)]))
  const wildcards = new Map(wildcard.map(({ domain, value }) => [domain.toLowerCase(), value]))

  function lookUp(state: RequestState, hasFile: HasFile): Found | undefined {
    if (state.missedPath === state.path) return undefined
    const name = fileNameOf(state.path)
    if (name !== undefined) {
      // Both spellings of a URL lead to a page, unless a route redirects from one to the other.
      const index = name === '' ? 'index' : `${name}/index`
      if (name !== '' && hasFile(name)) return { kind: 'asset', path: name }
      if (hasFile(`${index}.html`)) return { kind: 'asset', path: `${index}.html` }
      if (hasFile(index)) return { kind: 'asset', path: index }
      if (name !== '' && callable.has(name)) return { kind: 'function', path: name }
      if (callable.has(index)) return { kind: 'function', path: index }
    }
    state.missedPath = state.path
  }

  /** Applies the routes of one list from an index on. isTrial: only look-up results count, and no phase is re-entered. */
  function run(
    list: readonly CompiledRoute[],
    from: number,
    phase: PhaseName,
    state: RequestState,
    hasFile: HasFile,
    isTrial: boolean,
  ): Outcome {
    let lowerPath = ''
    let loweredPath: string | undefined
    for (let index = from; index < list.length; index++) {
      const compiled = list[index]
      if (compiled === undefined) break
      if (loweredPath !== state.path) {
        loweredPath = state.path
        lowerPath = loweredPath.toLowerCase()
      }
      if (!lowerPath.startsWith(compiled.prefix)) continue
      const captures = matchRoute(compiled, state)
      if (captures === undefined) continue
      const { route } = compiled
      if (phase === 'error' && route.status !== undefined && route.status !== state.status) continue

      for (const [name, value] of compiled.headers) {
        state.setHeader(name, value(captures, inHeader))
        if (route.important === true) state.important.add(name)
      }
      if (compiled.transforms.length > 0) applyTransforms(compiled.transforms, captures, state)
      if (route.locale !== undefined) {
        const location = redirectByLocale(route.locale, state)
        if (location !== undefined) return { answer: redirect(state, 307, location) }
      }
      if (compiled.location !== undefined && isRedirect(route.status)) {
        // A redirect ends routing, even if the route says `continue`.
        const location = compiled.location(captures, inHeader)
        return { answer: redirect(state, route.status, withOwnQuery(location, state.query)) }
      }
      if (route.middlewarePath !== undefined && !isTrial) {
        return { answer: callMiddleware(route.middlewarePath, state, phase, index + 1, hasFile) }
      }
      if (route.status !== undefined) state.status = route.status
      if (compiled.dest !== undefined) {
        const external = applyDest(compiled.dest, captures, state)
        if (external !== undefined) return { answer: external }
      }
      if (route.continue === true) continue
      if (route.check === true) {
        const resource =
          lookUp(state, hasFile) ?? (isTrial || phase === 'rewrite' ? undefined : lookUpDynamic(state, hasFile))
        if (resource !== undefined) return { found: resource }
        if (route.status !== undefined && phase !== 'miss') return { endsWith: route.status }
        continue
      }
      if (compiled.dest === undefined && route.status !== undefined) return { endsWith: route.status }
      break
    }
    const foundResource = lookUp(state, hasFile)
    return foundResource && { found: foundResource }
  }

  /** Looks up a rewritten path among pages with parameters; on failure the state is unchanged. */
  function lookUpDynamic(state: RequestState, hasFile: HasFile): Found | undefined {
    return tryRoutes(phases.rewrite, 'rewrite', state, hasFile)
  }

  function tryRoutes(
    list: readonly CompiledRoute[],
    phase: PhaseName,
    state: RequestState,
    hasFile: HasFile,
  ): Found | undefined {
    // Most trials end here, before anything is copied.
    const lowerPath = state.path.toLowerCase()
    const mayMatch = ({ pattern, prefix, seesDecoded }: CompiledRoute): boolean => {
      if (seesDecoded) return true
      if (!lowerPath.startsWith(prefix)) return false
      state.clock.count()
      return pattern.test(state.path)
    }
    if (!list.some(mayMatch)) return undefined
    const trial = state.clone()
    const outcome = run(list, 0, phase, trial, hasFile, true)
    if (outcome === undefined || !('found' in outcome)) return undefined
    state.assign(trial)
    return outcome.found
  }

  function callMiddleware(
    middlewarePath: string,
    state: RequestState,
    phase: PhaseName,
    next: number,
    hasFile: HasFile,
  ): Answer {
    return {
      ...state.common(),
      kind: 'middleware',
      path: middlewarePath.replace(/^\//, ''),
      url: withQuery(state.path, state.query),
      resume(result: MiddlewareResult): Answer {
        const resumed = state.resume()
        return withinLimits(() => applyMiddleware(result, resumed) ?? walk(resumed, phase, next, hasFile))
      },
    }
  }

  function walk(state: RequestState, start: PhaseName, from: number, hasFile: HasFile): Answer {
    let first = from
    const startAt = Math.max(
      0,
      ORDER.findIndex((phase) => phase === start),
    )
    for (const phase of ORDER.slice(startAt)) {
      const outcome = run(phases[phase], first, phase, state, hasFile, false)
      first = 0
      if (outcome !== undefined) {
        if ('answer' in outcome) return outcome.answer
        if ('found' in outcome) return finish(outcome.found, state, hasFile)
        // Next.js ends `resource` with 404 for everything; `miss` still has pages for those paths.
        if (phase !== 'resource') return endWith(outcome.endsWith, state, hasFile)
        state.status = outcome.endsWith
      }
      if (phase === 'first') {
        const resource = tryRoutes(missChecks, 'miss', state, hasFile)
        if (resource !== undefined) return finish(resource, state, hasFile)
      }
    }
    return endWith(state.status ?? 404, state, hasFile)
  }

  function endWith(status: number, state: RequestState, hasFile: HasFile): Answer {
    state.status = status
    const visiblePath = state.visiblePath
    // A file at the path where routing ended is not served; only another path is looked up.
    state.missedPath = state.path
    if (status >= 400) {
      const outcome = run(phases.error, 0, 'error', state, hasFile, true)
      if (outcome !== undefined && 'answer' in outcome) return outcome.answer
      state.status ??= status
      if (outcome !== undefined && 'found' in outcome) return finish(outcome.found, state, hasFile, true)
    }
    if (status === 404) {
      const isHashed = isHashedPath(visiblePath)
      const page = isHashed ? undefined : NOT_FOUND_PAGES.find((path) => hasFile(path))
      return { ...state.common(), kind: 'not-found', path: page, isHashed }
    }
    return { ...state.common(), kind: 'status', status }
  }

  /** Adds the headers of `hit`, which match by the path of the result. */
  function finish(resource: Found, state: RequestState, hasFile: HasFile, isError = false): Answer {
    const output = `/${resource.path}`
    for (const compiled of phases.hit) {
      const captures = matchRoute(compiled, state, output)
      if (captures === undefined) continue
      for (const [name, value] of compiled.headers) {
        state.setHeader(name, value(captures, inHeader))
        if (compiled.route.important === true) state.important.add(name)
      }
      applyTransforms(compiled.transforms, captures, state)
    }
    if (resource.kind === 'function') {
      const matchedPath = state.headers.get('x-matched-path')
      if (matchedPath !== undefined) state.setRequestHeader('x-matched-path', matchedPath)
      const { path } = resource
      const url = withQuery(state.visiblePath, state.query)
      const fail = (status: number) => withinLimits(() => endWith(status, state.resume(), hasFile))
      const common = { ...state.common(), ...forwarded(state), path, url, fail }
      const prerender = kept.get(path)
      return prerender
        ? { ...common, kind: 'prerender', ...prerender(state, matchedPath) }
        : { ...common, kind: 'function' }
    }
    const { status = 200 } = state
    if (status === 404)
      return { ...state.common(), kind: 'not-found', path: resource.path, isHashed: isHashedPath(state.visiblePath) }
    const refused = isError ? undefined : refuseMethod(state.request.method)
    return refused ?? { ...state.common(), kind: 'asset', path: resource.path, status }
  }

  return {
    route(request: RouteRequest, hasFile: HasFile): Answer {
      const path = normalizePath(request.path)
      const value = wildcards.size === 0 ? '' : (wildcards.get(request.host.replace(/:\d+$/, '')) ?? '')
      return walk(new RequestState(request, path, value), 'first', 0, hasFile)
    },
  }
}

type Kept = Pick<Extract<Answer, { kind: 'prerender' }>, 'sharedPath' | 'sharedQuery' | 'sharedMatches' | 'isBypassed'>

/** Compiles what distinguishes a Prerender Function's pages from each other. */
function compilePrerender({
  allowQuery,
  bypassFor = [],
}: PrerenderRules): (state: RequestState, matchedPath: string | undefined) => Kept {
  const bypasses = bypassFor.map((condition) => compileConditions([condition], []))
  return (state, matchedPath) => {
    const sharedQuery = canonicalQuery(state.query, allowQuery)
    return {
      sharedPath: matchedPath ?? state.visiblePath,
      sharedQuery,
      sharedMatches: canonicalQuery(sharedQuery, [...state.captured]),
      isBypassed: bypasses.some((check) => check?.(state.subject, {})),
    }
  }
}

const isRedirect = (status: number | undefined): status is number =>
  status !== undefined && status >= 300 && status <= 399

function redirect(state: RequestState, status: number, location: string): Answer {
  return { ...state.common(), kind: 'redirect', status, location }
}

const withOwnQuery = (location: string, query: string): string => {
  if (location.includes('?')) return location
  const [address = '', hash] = location.split(/#(.*)/s)
  return withQuery(address, query) + (hash === undefined ? '' : `#${hash}`)
}

const forwarded = (state: RequestState) => ({
  requestHeaders: [...state.requestHeaders] satisfies HeaderPairs,
  requestHeadersRemoved: [...state.requestHeadersRemoved],
  status: state.status,
})

const NOTHING_NAMED: Readonly<Record<string, string>> = Object.freeze({})

function matchRoute(compiled: CompiledRoute, state: RequestState, path = state.path): Captures | undefined {
  if (compiled.methods !== undefined && !compiled.methods.has(state.request.method)) return undefined
  state.clock.count()
  let match = compiled.pattern.exec(path)
  if (match === null && compiled.seesDecoded && path.includes('%'))
    match = compiled.pattern.exec(decoded(path, compiled))
  if (match === null) return undefined
  if (compiled.conditions === undefined && state.wildcard === '') return { match, named: NOTHING_NAMED }
  const named: Record<string, string> = { wildcard: state.wildcard }
  if (compiled.conditions !== undefined && !compiled.conditions(state.subject, named)) return undefined
  return { match, named }
}

/** Decodes a path. A slash stays encoded, so that no redirect can lead to another host; middleware sees everything decoded. */
function decoded(path: string, { route }: CompiledRoute): string {
  try {
    return decodeURIComponent(route.middlewarePath === undefined ? path.replaceAll(/%(?=2f|5c)/gi, '%25') : path)
  } catch {
    // Not UTF-8: no letter to match.
    return path
  }
}

/** Applies a route's destination; returns an answer if it leads to another origin. */
function applyDest(
  { path, query, isAbsolute }: NonNullable<CompiledRoute['dest']>,
  captures: Captures,
  state: RequestState,
): Answer | undefined {
  const address = path(captures, inPath)
  for (const name of [...Object.keys(captures.match?.groups ?? {}), ...Object.keys(captures.named)])
    state.captured.add(name)
  if (query !== undefined) state.query = mergeQueries(state.query, query(captures, inQuery))
  if (isAbsolute)
    return { ...state.common(), ...forwarded(state), kind: 'external', url: withQuery(address, state.query) }
  state.path = normalizePath(address.startsWith('/') ? address : `/${address}`)
}
