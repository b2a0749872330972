import { type Answer, type HasFile, refuseMethod, type Router } from './answer.ts'
import { compileConditions } from './conditions.ts'
import { isHashedPath } from './hashed-path.ts'
import type { OutputManifest, PrerenderRules } from './manifest.ts'
import { fileNameOf } from './normalize-path.ts'
import { canonicalQuery, withQuery } from './query.ts'
import type { RequestState } from './request-state.ts'
import { forwarded, routePhases } from './route-phases.ts'

interface Found {
  kind: 'asset' | 'function'
  path: string
}

/** Compiles the routes of Build Output API v3, which lead to its files and Functions. */
export function routeBuildOutput({ routes, functions, prerenders = {}, wildcard }: OutputManifest): Router {
  const middlewares = new Set(routes.flatMap(({ middlewarePath }) => middlewarePath?.replace(/^\//, '') ?? []))
  const callable = new Set(Object.keys(functions).filter((path) => !middlewares.has(path)))
  const kept = new Map(Object.entries(prerenders).map(([path, rules]) => [path, compilePrerender(rules)]))

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

  function answer(
    { kind, path }: Found,
    state: RequestState,
    fail: (status: number) => Answer,
    isError: boolean,
  ): Answer {
    if (kind === 'function') {
      const matchedPath = state.headers.get('x-matched-path')
      if (matchedPath !== undefined) state.setRequestHeader('x-matched-path', matchedPath)
      const url = withQuery(state.visiblePath, state.query)
      const common = { ...state.common(), ...forwarded(state), path, url, fail }
      const prerender = kept.get(path)
      return prerender
        ? { ...common, kind: 'prerender', ...prerender(state, matchedPath) }
        : { ...common, kind: 'function' }
    }
    const { status = 200 } = state
    if (status === 404) return { ...state.common(), kind: 'not-found', path, isHashed: isHashedPath(state.visiblePath) }
    const refused = isError ? undefined : refuseMethod(state.request.method)
    return refused ?? { ...state.common(), kind: 'asset', path, status }
  }

  return routePhases<Found>({ routes, wildcard }, { find: lookUp, outputOf: ({ path }) => `/${path}`, answer })
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
