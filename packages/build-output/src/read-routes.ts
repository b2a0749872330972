import { z } from 'zod'
import type { PatternChecker } from './check-pattern.ts'
import { patternOfRoute } from './compile-route.ts'
import { patternOf } from './conditions.ts'
import type { Condition, Route } from './manifest.ts'
import { UnusableOutput } from './output.ts'
import { condition, text, texts, valueTest } from './read-conditions.ts'
import { parseManifest } from './read-json.ts'
import type { Warnings } from './warnings.ts'

/** For all routes of a deployment. */
export const ROUTES_MAX = 10_000
const transform = z.union([
  z.object({
    type: z.enum(['request.headers', 'request.query', 'response.headers']),
    op: z.enum(['append', 'set', 'delete']),
    target: z.object({ key: z.union([text, valueTest]) }),
    args: z.union([text, texts]).optional(),
  }),
  z.object({ type: z.literal('request.path'), op: z.literal('set'), args: text }),
])

const sourceRoute = z.object({
  src: text,
  dest: text.optional(),
  headers: z.record(z.string(), z.string()).optional(),
  methods: z.array(z.string()).optional(),
  status: z.int().min(200).max(599).optional(),
  has: z.array(condition).optional(),
  missing: z.array(condition).optional(),
  continue: z.boolean().optional(),
  override: z.boolean().optional(),
  check: z.boolean().optional(),
  important: z.boolean().optional(),
  caseSensitive: z.boolean().optional(),
  locale: z.object({ redirect: z.record(z.string(), z.string()).optional(), cookie: text.optional() }).optional(),
  transforms: z.array(transform).optional(),
  middlewarePath: text.optional(),
  middlewareRawSrc: texts.optional(),
})

const handleRoute = z.object({ handle: z.enum(['filesystem', 'rewrite', 'resource', 'miss', 'hit', 'error']) })

const KNOWN_OF_ROUTES = new Set(Object.keys(sourceRoute.shape))

/** Rejects text that JSON can represent but a database cannot store: a NUL, and lone surrogates. */
export function requireStorable(value: object, name: string): void {
  const check = (text: string): void => {
    if (text.includes('\0') || !text.isWellFormed())
      throw new UnusableOutput(`${name}: ${JSON.stringify(text).slice(0, 200)} holds a NUL or half of a character.`)
  }
  JSON.stringify(value, (key, member: unknown) => {
    check(key)
    if (typeof member === 'string') check(member)
    return member
  })
}

/**
 * Validates routes as config.json and `routes` of vercel.json write them. name: of the file; member: of the list in it. Throws
 * UnusableOutput.
 */
export function readRoutes(
  routes: readonly Record<string, unknown>[],
  name: string,
  warnings: Warnings,
  member = 'routes',
): Route[] {
  const ignored = new Set<string>()
  const read = routes.map((route, index): Route => {
    const where = `${name}: ${member}[${index}]`
    if (route['handle'] !== undefined) return parseManifest(handleRoute, route, where)
    if (typeof route['destination'] === 'object' && route['destination'] !== null)
      throw new UnusableOutput(`${where} leads to a service, and services are not served here.`)
    const { source: src, destination: dest, statusCode: status, ...written } = route
    // The names used in vercel.json.
    const named = {
      ...(src !== undefined && { src }),
      ...(dest !== undefined && { dest }),
      ...(status !== undefined && { status }),
    }
    const canonical: Record<string, unknown> = { ...named, ...written }
    for (const each of Object.keys(canonical)) if (!KNOWN_OF_ROUTES.has(each)) ignored.add(each)
    // Absent members stay absent: the manifest is stored as JSON.
    return parseManifest(sourceRoute, canonical, where) as Route
  })
  for (const each of ignored) warnings.add(`${name}: \`${each.slice(0, 100)}\` of ${member} is ignored.`)
  return read
}

/** Throws UnusableOutput for a pattern that does not compile, or whose matching is worse than quadratic. name: of the file. */
export async function checkPatterns(
  patterns: Iterable<WrittenPattern>,
  name: string,
  checker: PatternChecker,
): Promise<void> {
  for (const { member, source, flags, written } of patterns) {
    const where = `${name}: ${member}, ${JSON.stringify(written)},`
    try {
      // oxlint-disable-next-line no-new -- whether it compiles is what counts
      new RegExp(source, flags)
    } catch (error) {
      throw new UnusableOutput(`${where} is no pattern: ${error instanceof Error ? error.message : ''}.`, {
        cause: error,
      })
    }
    const verdict = await checker.checkPattern(source, flags)
    if (verdict.kind === 'slow')
      throw new UnusableOutput(`${where} takes too long to match some paths (${verdict.complexity}): simplify it.`)
    if (verdict.kind === 'unknown')
      throw new UnusableOutput(`${where} cannot be shown to match any path in time (${verdict.reason}): simplify it.`)
  }
}

/** A pattern of a manifest. member: its location; written: as the author wrote it. */
export interface WrittenPattern {
  member: string
  source: string
  flags: string
  written: string
}

/** Yields the patterns of a route: its own, and those of its conditions. */
export function* patternsOfRoute(route: Route): Generator<Omit<WrittenPattern, 'member'>> {
  const { src = '', caseSensitive } = route
  let source = src
  try {
    source = patternOfRoute(route).source
  } catch {
    // Not a valid pattern: its reader reports that.
  }
  yield { source, flags: caseSensitive === true ? '' : 'i', written: src }
  for (const { value } of [...(route.has ?? []), ...(route.missing ?? [])] satisfies Condition[]) {
    const pattern = patternOf(value)
    if (pattern !== undefined) yield { source: `^(?:${pattern})$`, flags: '', written: pattern }
  }
}
