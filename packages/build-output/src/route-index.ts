import type { CompiledRoute } from './compile-route.ts'

/** Lengths to which prefixes are cut: a path asks for each that occurs once, however many routes there are. */
const LENGTHS = [...Array.from({ length: 24 }, (_, n) => n + 1), 32, 48, 64]
/** With fewer routes than this, comparing each prefix costs less than asking. */
const INDEXED_FROM = 16

/** The routes of one phase, in their order. */
export interface RouteList {
  routes: readonly CompiledRoute[]
  /**
   * Returns the places of the routes that can match a path, in ascending order: of all whose prefix or whole text may be the path's.
   *
   * lowerPath: normalized, in lower case.
   */
  candidatesOf(lowerPath: string): readonly number[]
}

const NONE: readonly number[] = []

/** Whether a path begins as those that a route matches. */
export const mayBegin = ({ prefix, isLiteral }: CompiledRoute, lowerPath: string): boolean =>
  isLiteral ? lowerPath === prefix : lowerPath.startsWith(prefix)

/** Indexes routes by the text that their paths begin with, so that a thousand of them cost a request about what a few do. */
export function indexRoutes(routes: readonly CompiledRoute[]): RouteList {
  if (routes.length < INDEXED_FROM) {
    const all = [...routes.keys()]
    return {
      routes,
      candidatesOf: (lowerPath) => (routes.some((route) => mayBegin(route, lowerPath)) ? all : NONE),
    }
  }
  const literals = new Map<string, number[]>()
  const prefixes = new Map<string, number[]>()
  const lengths = new Set<number>()
  const anywhere: number[] = []
  for (const [place, { prefix, isLiteral }] of routes.entries()) {
    if (isLiteral) add(literals, prefix, place)
    else if (prefix === '') anywhere.push(place)
    else {
      const length = LENGTHS.findLast((each) => each <= prefix.length) ?? 1
      lengths.add(length)
      add(prefixes, prefix.slice(0, length), place)
    }
  }
  const asked = [...lengths].toSorted((one, other) => one - other)
  return {
    routes,
    candidatesOf(lowerPath) {
      const found = anywhere.length === 0 ? [] : [anywhere]
      const literal = literals.get(lowerPath)
      if (literal !== undefined) found.push(literal)
      for (const length of asked) {
        if (length > lowerPath.length) break
        const list = prefixes.get(lowerPath.slice(0, length))
        if (list !== undefined) found.push(list)
      }
      if (found.length < 2) return found[0] ?? NONE
      return found.flat().toSorted((one, other) => one - other)
    },
  }
}

function add(places: Map<string, number[]>, text: string, place: number): void {
  const list = places.get(text)
  if (list === undefined) places.set(text, [place])
  else list.push(place)
}
