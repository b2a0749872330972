import {
  type Answer,
  type HasFile,
  type HeaderPairs,
  type MiddlewareResult,
  type RouteRequest,
  type Router,
} from './answer.ts'
import { applyTransforms } from './apply-transforms.ts'
import { type CompiledRoute, compileRoute } from './compile-route.ts'
import { isHashedPath } from './hashed-path.ts'
import { redirectByLocale } from './locale-redirect.ts'
import type { OutputManifest, Phase, VercelRoute } from './manifest.ts'
import { applyMiddleware } from './middleware-result.ts'
import { encodeText, normalizePath } from './normalize-path.ts'
import { mergeQueries, withQuery } from './query.ts'
import { RequestState } from './request-state.ts'
import { indexRoutes, mayBegin, type RouteList } from './route-index.ts'
import { withinLimits } from './routing-limit.ts'
import { type Captures, inHeader, inPath, inQuery } from './template.ts'

type PhaseName = Phase | 'first'
/** Phases in execution order, whatever their order in config.json. `hit` and `error` run depending on the result. */
const ORDER = ['first', 'filesystem', 'rewrite', 'resource', 'miss'] as const

/** Shown if no `error` route names a page. */
const NOT_FOUND_PAGES = ['404.html', '404']

/** What routes lead to: the files and Functions of Build Output, or a whole site behind vercel.json. */
export interface Destination<Found> {
  /**
   * Looks up the path of a state; undefined: nothing is there. isChosen: a route names the path, or ends the phase with it, so it is
   * no look-up of whatever path there is.
   */
  find(state: RequestState, hasFile: HasFile, isChosen: boolean): Found | undefined
  /** The path by which the routes of `hit` match. */
  outputOf(found: Found): string
  /** fail: answers in place of a Function that failed. isError: a page for a status. */
  answer(found: Found, state: RequestState, fail: (status: number) => Answer, isError: boolean): Answer
  /** Answers where no route led to anything; undefined: with 404. */
  answerRest?(state: RequestState, hasFile: HasFile): Answer | undefined
}

export interface PhaseRouter extends Router {
  /** True if no route comes into question before a normalized path is looked up, nor for what is found there. */
  hasNoRouteFor(path: string): boolean
}

/** The result of a phase's routes: an answer, a file or Function, an end with a status, or nothing yet. */
type Outcome<Found> = { answer: Answer } | { found: Found } | { endsWith: number } | undefined

function compilePhases(routes: readonly VercelRoute[]): Record<PhaseName, RouteList> {
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
  return {
    first: indexRoutes(phases.first),
    filesystem: indexRoutes(phases.filesystem),
    rewrite: indexRoutes(phases.rewrite),
    resource: indexRoutes(phases.resource),
    miss: indexRoutes(phases.miss),
    hit: indexRoutes(phases.hit),
    error: indexRoutes(phases.error),
  }
}

const withEncodedDest = (route: VercelRoute): VercelRoute =>
  route.dest === undefined ? route : { ...route, dest: encodeText(route.dest) }

/**
 * Compiles routes in phases, in front of what they lead to.
 *
 * A request passes the routes before any `handle`, then its path is looked up, then come `filesystem`, `rewrite`, `resource` and
 * `miss`, each followed by a look-up; a result gets the headers of `hit`, and without a result the routes of `error` apply. Routes of
 * `miss` with `check` are also tried at the first look-up that fails, before a rewrite or a catch-all page can take the path: a missing
 * `/_next/static/` file is not a page.
 */
export function routePhases<Found>(
  { routes, wildcard }: { routes: readonly VercelRoute[]; wildcard: OutputManifest['wildcard'] },
  to: Destination<Found>,
): PhaseRouter {
  const phases = compilePhases(routes)
  const missChecks = indexRoutes(phases.miss.routes.filter(({ route }) => route.check === true))
  const wildcards = new Map(wildcard.map(({ domain, value }) => [domain.toLowerCase(), value]))

  /** Applies the routes of one list from an index on. isTrial: only look-up results count, and no phase is re-entered. */
  function run(
    list: RouteList,
    from: number,
    phase: PhaseName,
    state: RequestState,
    hasFile: HasFile,
    isTrial: boolean,
  ): Outcome<Found> {
    let lowerPath = ''
    let loweredPath: string | undefined
    let candidates: readonly number[] = []
    let place = 0
    let next = from
    let isChosen = false
    for (;;) {
      if (loweredPath !== state.path) {
        loweredPath = state.path
        lowerPath = loweredPath.toLowerCase()
        candidates = list.candidatesOf(lowerPath)
        place = 0
      }
      while ((candidates[place] ?? next) < next) place++
      const index = candidates[place]
      const compiled = index === undefined ? undefined : list.routes[index]
      if (index === undefined || compiled === undefined) break
      next = index + 1
      if (!mayBegin(compiled, lowerPath)) continue
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
        return { answer: callMiddleware(route.middlewarePath, state, phase, next, hasFile) }
      }
      if (route.status !== undefined) state.status = route.status
      if (compiled.dest !== undefined) {
        const external = applyDest(compiled.dest, captures, state)
        if (external !== undefined) return { answer: external }
      }
      if (route.continue === true) continue
      if (route.check === true) {
        const resource =
          to.find(state, hasFile, true) ?? (isTrial || phase === 'rewrite' ? undefined : lookUpDynamic(state, hasFile))
        if (resource !== undefined) return { found: resource }
        if (route.status !== undefined && phase !== 'miss') return { endsWith: route.status }
        continue
      }
      if (compiled.dest === undefined && route.status !== undefined) return { endsWith: route.status }
      isChosen = compiled.dest !== undefined
      break
    }
    const foundResource = to.find(state, hasFile, isChosen)
    return foundResource && { found: foundResource }
  }

  /** Looks up a rewritten path among pages with parameters; on failure the state is unchanged. */
  function lookUpDynamic(state: RequestState, hasFile: HasFile): Found | undefined {
    return tryRoutes(phases.rewrite, 'rewrite', state, hasFile)
  }

  function tryRoutes(list: RouteList, phase: PhaseName, state: RequestState, hasFile: HasFile): Found | undefined {
    // Most trials end here, before anything is copied.
    const lowerPath = state.path.toLowerCase()
    const mayMatch = (compiled: CompiledRoute): boolean => {
      if (compiled.seesDecoded) return true
      if (!mayBegin(compiled, lowerPath)) return false
      state.clock.count()
      return compiled.pattern.test(state.path)
    }
    const { routes } = list
    if (!list.candidatesOf(lowerPath).some((place) => routes[place] !== undefined && mayMatch(routes[place])))
      return undefined
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
    return to.answerRest?.(state, hasFile) ?? endWith(state.status ?? 404, state, hasFile)
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
  function finish(found: Found, state: RequestState, hasFile: HasFile, isError = false): Answer {
    if (phases.hit.routes.length > 0) addHit(to.outputOf(found), state)
    return to.answer(found, state, (status) => withinLimits(() => endWith(status, state.resume(), hasFile)), isError)
  }

  function addHit(output: string, state: RequestState): void {
    for (const compiled of phases.hit.routes) {
      const captures = matchRoute(compiled, state, output)
      if (captures === undefined) continue
      for (const [name, value] of compiled.headers) {
        state.setHeader(name, value(captures, inHeader))
        if (compiled.route.important === true) state.important.add(name)
      }
      applyTransforms(compiled.transforms, captures, state)
    }
  }

  return {
    hasNoRouteFor: (path) =>
      phases.hit.routes.length === 0 && phases.first.candidatesOf(path.toLowerCase()).length === 0,
    route(request: RouteRequest, hasFile: HasFile): Answer {
      const path = normalizePath(request.path)
      const value = wildcards.size === 0 ? '' : (wildcards.get(request.host.replace(/:\d+$/, '')) ?? '')
      return walk(new RequestState(request, path, value), 'first', 0, hasFile)
    },
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

/** What is passed on to other than files, with a request. */
export const forwarded = (state: RequestState) => ({
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
  { path, query, isAbsolute, keepsPath }: NonNullable<CompiledRoute['dest']>,
  captures: Captures,
  state: RequestState,
): Answer | undefined {
  const address = path(captures, inPath)
  for (const name of [...Object.keys(captures.match?.groups ?? {}), ...Object.keys(captures.named)])
    state.captured.add(name)
  if (query !== undefined) state.query = mergeQueries(state.query, query(captures, inQuery))
  if (isAbsolute)
    return { ...state.common(), ...forwarded(state), kind: 'external', url: withQuery(address, state.query) }
  if (keepsPath) return undefined
  state.path = normalizePath(address.startsWith('/') ? address : `/${address}`)
  state.isRewritten = true
}
