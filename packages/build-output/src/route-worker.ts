import { type Answer, plain, type RouteRequest, type Router } from './answer.ts'
import type { WorkerRoutes } from './manifest.ts'
import { normalizePath } from './normalize-path.ts'
import { withQuery } from './query.ts'

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
export function routeServer(path: string, staticFolder: string | undefined): Router {
  return {
    route(request, hasFile) {
      const name = staticFolder === undefined ? '' : normalizePath(request.path).slice(1)
      if (staticFolder === undefined || !name.startsWith(staticFolder)) return callFunction(path, request)
      if (!hasFile(name)) return { ...plain(), kind: 'not-found', path: undefined, isHashed: true }
      if (request.method === 'GET' || request.method === 'HEAD')
        return { ...plain(), kind: 'asset', path: name, status: 200 }
      return { ...plain(), headers: [['allow', 'GET, HEAD']], kind: 'status', status: 405 }
    },
  }
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
export function routeWorker({ include, exclude }: WorkerRoutes, path: string, files: Router): Router {
  const included = include.map(compileRule)
  const excluded = exclude.map(compileRule)
  return {
    route(request, hasFile) {
      const requestPath = normalizePath(request.path)
      const isWorkers =
        included.some((matches) => matches(requestPath)) && !excluded.some((matches) => matches(requestPath))
      return isWorkers ? callFunction(path, request) : files.route(request, hasFile)
    },
  }
}
