import { type Answer, type HasFile, type HeaderPairs, type Router, withUrl } from './answer.ts'
import { isHashedPath } from './hashed-path.ts'
import type { VercelRules } from './manifest.ts'
import { normalizePath } from './normalize-path.ts'
import type { RequestState } from './request-state.ts'
import { forwarded, routePhases } from './route-phases.ts'
import type { SiteRouter } from './site-router.ts'

/**
 * Puts the routes of vercel.json in front of a site: its redirects and headers, then what the site has at the visitor's path, then the
 * rewrites, and last what the site answers to any path. The headers apply whatever answers. A server or worker sees the path that a route
 * led to, else the visitor's own.
 */
export function routeVercel({ routes }: Pick<VercelRules, 'routes'>, site: SiteRouter): Router {
  function find(state: RequestState, hasFile: HasFile, isChosen: boolean): Answer | undefined {
    const { request, path, query } = state
    if (isChosen || state.isRewritten) return site.findRewritten(seenBy(state), request, hasFile)
    if (state.missedPath === path) return undefined
    const found = site.find(withUrl(request, { path: request.path, query }), hasFile)
    if (found === undefined) state.missedPath = path
    return found
  }

  function answerRest(state: RequestState, hasFile: HasFile): Answer | undefined {
    // A status that a route set asks for the page of that status.
    if (state.status !== undefined && state.status >= 400) return undefined
    const answer = site.answerRest(state.request, hasFile)
    return answer.kind === 'not-found' && hasErrorPages ? undefined : decorate(answer, state)
  }

  const hasErrorPages = routes.some(({ handle }) => handle === 'error')
  const outputOf = (answer: Answer) => ('path' in answer && answer.path !== undefined ? `/${answer.path}` : '')
  const front = routePhases<Answer>({ routes, wildcard: [] }, { find, outputOf, answer: decorate, answerRest })
  return {
    route(request, hasFile) {
      // Most requests are for files that no rule names.
      const found = front.hasNoRouteFor(normalizePath(request.path)) ? site.find(request, hasFile) : undefined
      return found ?? front.route(request, hasFile)
    },
  }
}

/** Path and query for a server: a transform's, a rewrite's, or the visitor's own to the letter. */
function seenBy({ request, path, ownPath, visiblePath, isRewritten, query }: RequestState) {
  if (visiblePath !== ownPath) return { path: visiblePath, query }
  return { path: isRewritten ? path : request.path, query }
}

type Common = ReturnType<RequestState['common']>

/** Joins headers of routes and of the site's own rules. A header of both is the routes'. */
function withOwn(common: Common, { headers, important, unset }: Answer): Common {
  if (headers.length === 0 && unset.length === 0) return common
  const names = new Set(common.headers.map(([name]) => name))
  const own = headers.filter(([name]) => name === 'set-cookie' || !names.has(name))
  return {
    headers: [...own, ...common.headers] satisfies HeaderPairs,
    important: [...important, ...common.important],
    unset: unset.filter((name) => !names.has(name)),
  }
}

/** Adds what routes set to the answer of the site. */
function decorate(answer: Answer, state: RequestState): Answer {
  const common = withOwn(state.common(), answer)
  if (answer.kind === 'function') return { ...answer, ...forwarded(state), ...common }
  const { status } = state
  if (answer.kind !== 'asset' || status === undefined) return { ...answer, ...common }
  return status === 404
    ? { ...common, kind: 'not-found', path: answer.path, isHashed: isHashedPath(state.visiblePath) }
    : { ...answer, ...common, status }
}
