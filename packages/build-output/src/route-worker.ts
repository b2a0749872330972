import { type Answer, plain, refuseMethod, type RouteRequest, withUrl } from './answer.ts'
import type { WorkerRoutes } from './manifest.ts'
import { normalizePath } from './normalize-path.ts'
import { withQuery } from './query.ts'
import { type SiteRouter, siteRouter } from './site-router.ts'

/**
 * Hands a request on as the visitor sent it: proxies of images, archives and signed addresses need the path to the letter. Which requests
 * are handed on is decided by the normal form.
 */
function callFunction(path: string, request: RouteRequest): Answer {
  return {
    ...plain(),
    kind: 'function',
    path,
    url: withQuery(request.path, request.query),
    requestHeaders: [],
    requestHeadersRemoved: [],
    status: undefined,
  }
}

/** Routes every request to a server, except for the hashed files in the folder. path: of its Function. */
export function routeServer(path: string, staticFolder: string | undefined): SiteRouter {
  return siteRouter({
    find(request, hasFile) {
      const name = staticFolder === undefined ? '' : normalizePath(request.path).slice(1)
      if (staticFolder === undefined || !name.startsWith(staticFolder)) return undefined
      if (!hasFile(name)) return { ...plain(), kind: 'not-found', path: undefined, isHashed: true }
      return refuseMethod(request.method) ?? { ...plain(), kind: 'asset', path: name, status: 200 }
    },
    findRewritten: (to, request) => callFunction(path, withUrl(request, to)),
    answerRest: (request) => callFunction(path, request),
  })
}

/** Compiles a pattern in which `*` matches any text; matching takes time linear in the path. */
function compile(pattern: string): (path: string) => boolean {
  const [head = '', ...rest] = pattern.split('*')
  const tail = rest.pop()
  if (tail === undefined) return (path) => path === head
  return (path) => {
    if (!path.startsWith(head) || path.length < head.length + tail.length) return false
    let end = head.length
    for (const part of rest) {
      const index = path.indexOf(part, end)
      if (index === -1) return false
      end = index + part.length
    }
    return path.endsWith(tail) && path.length - tail.length >= end
  }
}

/** `/api/*` also matches `/api`, as in Cloudflare Pages. */
const compileRule = (pattern: string): ((path: string) => boolean) => {
  const matches = compile(pattern)
  const base = pattern.endsWith('/*') ? compile(pattern.slice(0, -2)) : undefined
  return (path) => matches(path) || base?.(path) === true
}

/**
 * Routes by `_routes.json` (Cloudflare Pages): paths in `include` but not in `exclude` go to the worker, all others to the files.
 * path: of the worker's Function.
 */
export function routeWorker({ include, exclude }: WorkerRoutes, path: string, files: SiteRouter): SiteRouter {
  const included = include.map(compileRule)
  const excluded = exclude.map(compileRule)
  const isWorkers = (requestPath: string): boolean => {
    const normal = normalizePath(requestPath)
    return included.some((matches) => matches(normal)) && !excluded.some((matches) => matches(normal))
  }
  return siteRouter({
    find: (request, hasFile) => (isWorkers(request.path) ? undefined : files.find(request, hasFile)),
    findRewritten: (to, request, hasFile) =>
      isWorkers(to.path) ? callFunction(path, withUrl(request, to)) : files.findRewritten(to, request, hasFile),
    answerRest: (request, hasFile) =>
      isWorkers(request.path) ? callFunction(path, request) : files.answerRest(request, hasFile),
  })
}
