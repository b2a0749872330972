import { compileRoute, type CompiledRoute } from './compile-route.ts'
import type { Route } from './manifest.ts'
import { normalizeWrittenPath } from './normalize-path.ts'

interface Redirect {
  compiled: CompiledRoute
  /** The path that it leads to, in lower case. */
  to: string
}

/** Returns a redirect whose path and destination are known before any request; undefined for all other routes. */
function compileFixed(route: Route): Redirect | undefined {
  const { status = 0, headers = {}, has, missing, methods, caseSensitive } = route
  const location = Object.entries(headers).find(([name]) => name.toLowerCase() === 'location')?.[1]
  if (location === undefined || status < 300 || status > 399) return undefined
  if (has !== undefined || missing !== undefined || methods !== undefined || caseSensitive === true) return undefined
  if (!/^\/(?!\/)/.test(location) || location.includes('$')) return undefined
  const [path = ''] = location.split(/[?#]/)
  return { compiled: compileRoute(route), to: normalizeWrittenPath(path).toLowerCase() }
}

/**
 * Finds the redirects that lead back to themselves, by themselves or by others of one path each, whoever asks. Conditions and captures
 * are not followed.
 *
 * routes: those before any `handle`, whose patterns are checked. Returns their places.
 */
export function findCircles(routes: readonly Route[]): number[] {
  const circles = new Set<number>()
  const literals = new Map<string, number>()
  const redirects = new Map<number, Redirect>()
  for (const [place, route] of routes.entries()) {
    const redirect = compileFixed(route)
    if (redirect === undefined) continue
    const { compiled, to } = redirect
    if (compiled.pattern.test(to)) circles.add(place)
    else if (compiled.isLiteral && !literals.has(compiled.prefix)) {
      literals.set(compiled.prefix, place)
      redirects.set(place, redirect)
    }
  }
  const done = new Set<number>()
  for (const start of redirects.keys()) {
    const way: number[] = []
    let place: number | undefined = start
    while (place !== undefined && !done.has(place)) {
      done.add(place)
      way.push(place)
      const { to }: Redirect | { to: undefined } = redirects.get(place) ?? { to: undefined }
      place = to === undefined ? undefined : literals.get(to)
    }
    const closed = place === undefined ? -1 : way.indexOf(place)
    if (closed !== -1) for (const each of way.slice(closed)) circles.add(each)
  }
  return [...circles].toSorted((one, other) => one - other)
}
