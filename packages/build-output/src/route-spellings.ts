import { type Answer, type HasFile, type RouteRequest, type Router, withUrl } from './answer.ts'
import type { SpellingOf } from './file-names.ts'
import { encodeText, fileNameOf, normalizePath } from './normalize-path.ts'

/**
 * Returns a request's path in the spelling of the file that it led to; undefined if it led there by a rewrite, whose destination
 * its author wrote. found: the path that was looked up; stored: the file's own.
 */
function respell(requestPath: string, found: string, stored: string): string | undefined {
  const path = normalizePath(requestPath)
  const name = fileNameOf(path)
  if (name === undefined || name === '' || !found.startsWith(name)) return undefined
  // `.html` or `/index.html`, the same in both.
  const added = found.slice(name.length)
  if (!stored.endsWith(added)) return undefined
  const own = stored.slice(0, stored.length - added.length)
  return `/${encodeText(own.replaceAll('%', '%25'))}${path.endsWith('/') ? '/' : ''}`
}

/**
 * Routes a request that may name a file in another Unicode normal form. An exact name wins. A file that is found by another one is
 * routed again by its own: so the rules and the middleware for either spelling apply, and no spelling passes them by.
 */
export function routeSpellings(
  router: Router,
  request: RouteRequest,
  hasFile: HasFile,
  spellingOf: SpellingOf,
): Answer {
  const settle = (answer: Answer): Answer => {
    if (answer.kind === 'middleware') return { ...answer, resume: (result) => settle(answer.resume(result)) }
    if ((answer.kind !== 'asset' && answer.kind !== 'not-found') || answer.path === undefined || hasFile(answer.path))
      return answer
    const stored = spellingOf(answer.path) ?? answer.path
    if (answer.kind === 'not-found') return { ...answer, path: stored }
    const path = respell(request.path, answer.path, stored)
    return path === undefined
      ? { ...answer, path: stored }
      : router.route(withUrl(request, { path, query: request.query }), hasFile)
  }
  return settle(router.route(request, (path) => hasFile(path) || spellingOf(path) !== undefined))
}
