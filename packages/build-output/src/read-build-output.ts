import { z } from 'zod'
import type { PatternChecker } from './check-pattern.ts'
import { patternOfRoute } from './compile-route.ts'
import { patternOf } from './conditions.ts'
import { contentTypeOf } from './content-type.ts'
import { cronsSchema, readCrons } from './read-crons.ts'
import { readFunctions } from './read-functions.ts'
import { imagesSchema, patternsOfImages, readImages } from './read-images.ts'
import { patternsOfPrerender } from './read-prerender.ts'
import type { Condition, ImageRules, OutputManifest, Route } from './manifest.ts'
import { type Asset, isServable, type Output, type Tree, UnusableOutput } from './output.ts'
import { condition, text, texts, valueTest } from './read-conditions.ts'
import { parseManifest, readJson } from './read-json.ts'
import { treePath } from './tree-path.ts'
import { Warnings } from './warnings.ts'

const ROUTES_MAX = 10_000
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

const config = z.object({
  version: z.literal(3),
  routes: z
    .array(z.looseObject({ handle: z.unknown().optional() }))
    .max(ROUTES_MAX)
    .optional(),
  overrides: z
    .record(
      z.string(),
      z.object({
        path: z.string().optional(),
        contentType: z
          .string()
          .regex(/^[\x20-\x7E]+$/, 'a Content-Type is plain text')
          .optional(),
      }),
    )
    .optional(),
  wildcard: z.array(z.object({ domain: z.string(), value: z.string() })).optional(),
  crons: cronsSchema.optional(),
  images: imagesSchema.optional(),
})

/** Members that are supported, or have no effect here. */
const KNOWN = new Set([...Object.keys(config.shape), 'cache', 'framework', 'flags', 'deploymentId'])
const KNOWN_OF_ROUTES = new Set(Object.keys(sourceRoute.shape))

/**
 * Reads Build Output API v3 below `.vercel/output`.
 *
 * root: the project's, relative to the archive's root. Throws UnusableOutput, also for patterns that do not compile or whose
 * matching is worse than quadratic.
 */
export async function readBuildOutput(tree: Tree, root: string, checker: PatternChecker): Promise<Output> {
  const folder = root === '' ? '.vercel/output' : `${root}/.vercel/output`
  const warnings = new Warnings()
  const name = `${folder}/config.json`
  const raw = await readJson(tree, name, z.looseObject({}))
  if ('services' in raw) throw new UnusableOutput(`${name} has \`services\`, which are not served here.`)
  for (const member of Object.keys(raw)) if (!KNOWN.has(member)) warnings.add(`${name}: \`${member}\` is ignored.`)
  const parsed = parseManifest(config, raw, name)
  const routes = readRoutes(parsed.routes ?? [], name, warnings)
  const images = parsed.images && readImages(parsed.images)
  const { functions, byPath, prerenders, fallbacks } = await readFunctions(tree, root, folder, warnings)
  await checkPatterns(patternsOf(routes, images, prerenders), name, checker)
  requireMiddleware(routes, byPath, name)
  const crons = await readCrons(parsed.crons ?? [], name)
  const assets = readAssets(tree, folder, parsed.overrides ?? {}, name, warnings)
  requireStorable({ routes, wildcard: parsed.wildcard, images, assets, functions, prerenders }, name)
  return {
    manifest: {
      version: 1,
      kind: 'build-output',
      routes,
      wildcard: parsed.wildcard ?? [],
      site: null,
      functions: byPath,
      ...(Object.keys(prerenders).length > 0 && { prerenders }),
      ...(images && { images }),
      ...(crons.length > 0 && { crons }),
    },
    assets,
    functions,
    fallbacks,
    notes: [],
    warnings: warnings.list(),
  }
}

/** Rejects text that JSON can represent but a database cannot store: a NUL, and lone surrogates. */
function requireStorable(value: object, name: string): void {
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

function readRoutes(routes: Record<string, unknown>[], name: string, warnings: Warnings): Route[] {
  const ignored = new Set<string>()
  const read = routes.map((route, index): Route => {
    const where = `${name}: routes[${index}]`
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
    for (const member of Object.keys(canonical)) if (!KNOWN_OF_ROUTES.has(member)) ignored.add(member)
    // Absent members stay absent: the manifest is stored as JSON.
    return parseManifest(sourceRoute, canonical, where) as Route
  })
  for (const member of ignored) warnings.add(`${name}: \`${member}\` of routes is ignored.`)
  return read
}

async function checkPatterns(patterns: Iterable<WrittenPattern>, name: string, checker: PatternChecker): Promise<void> {
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
interface WrittenPattern {
  member: string
  source: string
  flags: string
  written: string
}

function* patternsOf(
  routes: readonly Route[],
  images: ImageRules | undefined,
  prerenders: NonNullable<OutputManifest['prerenders']>,
): Generator<WrittenPattern> {
  for (const [index, route] of routes.entries())
    if (route.handle === undefined)
      for (const pattern of patternsOfRoute(route)) yield { member: `routes[${index}]`, ...pattern }
  for (const { member, source } of images ? patternsOfImages(images) : [])
    yield { member: `images.${member}`, source: `^(?:${source})$`, flags: '', written: source }
  // All pages of a site have the same patterns.
  const bypasses = new Set(Object.values(prerenders).flatMap((rules) => [...patternsOfPrerender(rules)]))
  for (const source of bypasses)
    yield { member: 'experimentalBypassFor', source: `^(?:${source})$`, flags: '', written: source }
}

function* patternsOfRoute(route: Route): Generator<Omit<WrittenPattern, 'member'>> {
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

function requireMiddleware(routes: readonly Route[], functions: OutputManifest['functions'], name: string): void {
  for (const [index, { middlewarePath }] of routes.entries()) {
    if (middlewarePath === undefined) continue
    const path = treePath(middlewarePath.replace(/^\//, ''), '', `${name}: the middlewarePath of routes[${index}]`)
    if (functions[path] === undefined)
      throw new UnusableOutput(
        `${name}: routes[${index}] names the middleware ${middlewarePath}, which is no Function.`,
      )
  }
}

function readAssets(
  tree: Tree,
  folder: string,
  overrides: NonNullable<z.infer<typeof config>['overrides']>,
  name: string,
  warnings: Warnings,
): Asset[] {
  const below = `${folder}/static/`
  const assets = new Map<string, Asset>()
  let hidden = 0
  for (const source of tree.files.keys()) {
    if (!source.startsWith(below)) continue
    const path = source.slice(below.length)
    if (isServable(path)) assets.set(path, { path, source, contentType: contentTypeOf(path) })
    else hidden++
  }
  const renamed: Asset[] = []
  for (const [key, { path, contentType }] of Object.entries(overrides)) {
    const source = treePath(key, `${folder}/static`, `${name}: the override`)
    const served =
      path === undefined ? undefined : treePath(path.replace(/^\//, ''), '', `${name}: the path of an override`)
    const asset = assets.get(source.slice(below.length))
    if (asset === undefined) {
      warnings.add(`${name}: the override ${JSON.stringify(key)} names no file of static and is ignored.`)
      continue
    }
    assets.delete(asset.path)
    const to = served === undefined || served === '' ? asset.path : served
    if (isServable(to)) renamed.push({ path: to, source, contentType: contentType ?? asset.contentType })
    else hidden++
  }
  for (const asset of renamed) assets.set(asset.path, asset)
  if (hidden > 0) warnings.add(`Files of names that begin with a dot are left out: ${hidden}.`)
  return [...assets.values()]
}
