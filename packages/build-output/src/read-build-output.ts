import { z } from 'zod'
import type { PatternChecker } from './check-pattern.ts'
import { openContentTypes } from './content-type.ts'
import { cronsSchema, readCrons } from './read-crons.ts'
import { readFunctions } from './read-functions.ts'
import { imagesSchema, patternsOfImages, readImages } from './read-images.ts'
import { patternsOfPrerender } from './read-prerender.ts'
import type { ImageRules, OutputManifest, Route } from './manifest.ts'
import { type Asset, isServable, type Output, type Tree, UnusableOutput } from './output.ts'
import { parseManifest, readJson } from './read-json.ts'
import {
  checkPatterns,
  patternsOfRoute,
  readRoutes,
  requireStorable,
  ROUTES_MAX,
  type WrittenPattern,
} from './read-routes.ts'
import { treePath } from './tree-path.ts'
import { Warnings } from './warnings.ts'

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
  const sources = [...tree.files.keys()].filter((source) => source.startsWith(below))
  const typeOf = openContentTypes(sources.map((source) => source.slice(below.length)))
  let hidden = 0
  for (const source of sources) {
    const path = source.slice(below.length)
    if (isServable(path)) assets.set(path, { path, source, contentType: typeOf(path) })
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
