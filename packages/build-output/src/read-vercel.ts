import { z } from 'zod'
import { openPatternChecker } from './check-pattern.ts'
import { patternOfRoute } from './compile-route.ts'
import type { Cron, ImageRules, Route, UrlSpelling, VercelRoute } from './manifest.ts'
import { joinPhases } from './merge-routes.ts'
import { type Tree, UnusableOutput } from './output.ts'
import type { KeptVerdicts } from './pattern-verdict.ts'
import { condition, text } from './read-conditions.ts'
import { cronsSchema, readCrons } from './read-crons.ts'
import { imagesSchema, patternsOfImages, readImages } from './read-images.ts'
import { parseManifest, readJson } from './read-json.ts'
import {
  checkPatterns,
  patternsOfRoute,
  readRoutes,
  requireStorable,
  ROUTES_MAX,
  type WrittenPattern,
} from './read-routes.ts'
import { findCircles } from './redirect-circles.ts'
import { transformVercel } from './transform-vercel.ts'
import { Warnings } from './warnings.ts'

/** What vercel.json says of a deployment, apart from how it is built. */
export interface VercelConfig extends UrlSpelling {
  /** In phases. */
  routes: VercelRoute[]
  crons: Cron[]
  images: ImageRules | undefined
  /** Sentences for the build log: what was left out or ignored, and why. */
  warnings: string[]
}

const CONDITIONS_MAX = 16
const HEADERS_MAX = 100
/** For the values of one rule, which are looked through for each of its names. */
const HEADERS_LENGTH_MAX = 65_536
const CODE = ['js', 'mjs', 'cjs', 'ts', 'mts', 'cts', 'jsx', 'tsx']

const conditions = z.array(condition).max(CONDITIONS_MAX).optional()
const rule = { source: text, has: conditions, missing: conditions }
const list = <T extends z.ZodType>(member: T) => z.array(member).max(ROUTES_MAX).optional()
const pathTransform = z.object({ type: z.literal('request.path'), op: z.literal('set'), args: text })
/** A destination that is no text leads to a service, and is refused by name. */
const destination = z.union([text, z.looseObject({ service: z.string() })])

const schemas = {
  cleanUrls: z.boolean().optional(),
  trailingSlash: z.boolean().optional(),
  redirects: list(
    z.object({
      ...rule,
      destination: text,
      permanent: z.boolean().optional(),
      statusCode: z.int().min(300, 'it has to be a redirect').max(399, 'it has to be a redirect').optional(),
    }),
  ),
  rewrites: list(
    z.object({
      ...rule,
      destination,
      statusCode: z.int().min(200).max(599).optional(),
      transforms: z.array(pathTransform).optional(),
    }),
  ),
  headers: list(
    z.object({
      ...rule,
      headers: z
        .array(z.object({ key: text, value: z.string() }))
        .max(HEADERS_MAX)
        .refine(
          (each) => each.reduce((sum, { key, value }) => sum + key.length + value.length, 0) <= HEADERS_LENGTH_MAX,
          `they are longer than ${HEADERS_LENGTH_MAX / 1_024} KB`,
        ),
    }),
  ),
  routes: list(z.looseObject({ middlewarePath: z.unknown().optional() })),
  crons: cronsSchema.optional(),
  images: imagesSchema.optional(),
}
const vercelJson = z.object(schemas)
type VercelJson = z.infer<typeof vercelJson>

/** Members of rules that mean something here. */
const KNOWN_OF_RULES = {
  redirects: new Set(['source', 'destination', 'permanent', 'statusCode', 'has', 'missing']),
  rewrites: new Set(['source', 'destination', 'statusCode', 'transforms', 'has', 'missing']),
  headers: new Set(['source', 'headers', 'has', 'missing']),
}
/** Members that are read with the source, or have no effect anywhere. */
const QUIET = new Set([
  ...Object.keys(schemas),
  '$schema',
  'version',
  'framework',
  'buildCommand',
  'installCommand',
  'outputDirectory',
  'devCommand',
])
/** What does here what a member does on Vercel. */
const INSTEAD: Readonly<Record<string, string>> = {
  functions:
    'a Function has the memory and the time of its plan, and is a worker (_worker.js), a server with a start script, or in Build Output',
  regions: 'Functions run where the edges of this platform are',
  builds: 'the build script in package.json builds, or `buildCommand`, and `outputDirectory` names the folder of pages',
}
/** Members of `routes` that Vercel's own tools write, about Functions that only Build Output has. */
const OF_MIDDLEWARE = ['middleware', 'middlewarePath', 'middlewareRawSrc']

/**
 * Reads vercel.json in a project's root directory: the rules for addresses and headers, as routes; `crons`; and `images`. How the project is
 * built is not read here.
 *
 * root: '' for the archive's root. Returns undefined if there is none. Throws UnusableOutput with a sentence that names the member or rule:
 * for one of a wrong type, and for a pattern that does not compile or whose matching is worse than quadratic.
 */
export async function readVercel(
  tree: Tree,
  root: string,
  { kept }: { kept?: KeptVerdicts } = {},
): Promise<VercelConfig | undefined> {
  const name = root === '' ? 'vercel.json' : `${root}/vercel.json`
  if (!tree.files.has(name)) return undefined
  const raw = await readJson(tree, name, z.looseObject({}))
  const warnings = new Warnings()
  warnOfMembers(raw, name, warnings)
  const parsed = parseManifest(vercelJson, raw, name)
  requireStorable(parsed, name)
  const written = await readWritten(parsed, name, warnings)
  const images = parsed.images && readImages(parsed.images)
  const checker = openPatternChecker({ kept })
  try {
    await checkPatterns(patternsOf(written, images), name, checker)
  } finally {
    await checker.close()
  }
  const { cleanUrls, trailingSlash } = parsed
  return {
    routes: arrange(leaveOutCircles(written, name, warnings), tree, root),
    ...(cleanUrls !== undefined && { cleanUrls }),
    ...(trailingSlash !== undefined && { trailingSlash }),
    crons: await readCrons(parsed.crons ?? [], name),
    images,
    warnings: warnings.list(),
  }
}

/** Whether a rule that asks nothing else catches every path, or all but a few that its author excepts. */
export function hasCatchAll({ routes }: Pick<VercelConfig, 'routes'>): boolean {
  return routes.some((route) => {
    if (route.handle !== undefined || route.continue === true || route.src === undefined) return false
    if (route.has !== undefined || route.missing !== undefined) return false
    const pattern = patternOfRoute(route)
    return UNLIKELY.every((path) => pattern.test(path))
  })
}

/** Paths that no site has: a pattern that matches them all matches any. */
const UNLIKELY = ['/zq-0f', '/zq-0f/vxj.qz', '/zq-0f/vxj/kw-3']

function warnOfMembers(raw: Record<string, unknown>, name: string, warnings: Warnings): void {
  for (const member of Object.keys(raw)) {
    if (QUIET.has(member)) continue
    const instead = Object.hasOwn(INSTEAD, member) ? `: ${INSTEAD[member]}` : ''
    warnings.add(`${name}: \`${member.slice(0, 100)}\` is ignored${instead}.`)
  }
  for (const [member, known] of Object.entries(KNOWN_OF_RULES)) {
    const rules: unknown = raw[member]
    const names = new Set(Array.isArray(rules) ? rules.flatMap(namesOf) : [])
    for (const each of names)
      if (!known.has(each)) warnings.add(`${name}: \`${each.slice(0, 100)}\` of ${member} is ignored.`)
  }
}

const namesOf = (value: unknown): string[] => (typeof value === 'object' && value !== null ? Object.keys(value) : [])

/** A route, and where its author wrote it. */
interface Written {
  /** Its place in vercel.json. */
  member: string
  source: string
  route: Route
}

type Lists = Record<'spelling' | 'routes' | 'redirects' | 'headers' | 'rewrites', Written[]>

async function readWritten(parsed: VercelJson, name: string, warnings: Warnings): Promise<Lists> {
  const { redirects = [], rewrites = [], headers = [], routes = [], cleanUrls, trailingSlash } = parsed
  if (redirects.length + rewrites.length + headers.length + routes.length > ROUTES_MAX)
    throw new UnusableOutput(`${name} has more than ${ROUTES_MAX} rules.`)
  if (routes.some((route) => OF_MIDDLEWARE.some((member) => route[member] !== undefined)))
    warnings.add(`${name}: the middleware that routes name is ignored: only Build Output has any.`)
  const plain = routes.map((route) =>
    Object.fromEntries(Object.entries(route).filter(([member]) => !OF_MIDDLEWARE.includes(member))),
  )
  // They are validated before, so that a sentence names what the author wrote, and after.
  readRoutes(plain, name, warnings)
  const lists = { redirects, rewrites, headers }
  const spelled = {
    ...(cleanUrls !== undefined && { cleanUrls }),
    ...(trailingSlash !== undefined && { trailingSlash }),
  }
  const made = await transformVercel({ ...lists, ...spelled, routes: plain }, name)
  const write = (member: keyof typeof lists | 'routes', sources: readonly string[]): Written[] =>
    readRoutes(
      made[member].map((route) => ({ ...route })),
      name,
      new Warnings(),
      member,
    ).map((route, index) => ({
      member: `${member}[${index}]`,
      source: sources[index] ?? route.src ?? '',
      route,
    }))
  const sourcesOf = (rules: readonly { source: string }[]): string[] => rules.map(({ source }) => source)
  const spelling = readRoutes(
    made.spelling.map((route) => ({ ...route })),
    name,
    new Warnings(),
    'cleanUrls',
  )
  return {
    spelling: spelling.map((route) => ({ member: 'cleanUrls', source: route.src ?? '', route })),
    routes: write('routes', []),
    redirects: write('redirects', sourcesOf(redirects)),
    headers: write('headers', sourcesOf(headers)),
    rewrites: write('rewrites', sourcesOf(rewrites)),
  }
}

function* patternsOf(lists: Lists, images: ImageRules | undefined): Generator<WrittenPattern> {
  for (const { member, source: written, route } of Object.values(lists).flat())
    if (route.handle === undefined)
      for (const pattern of patternsOfRoute(route))
        yield { ...pattern, member, written: pattern.written === route.src ? written : pattern.written }
  for (const { member, source } of images ? patternsOfImages(images) : [])
    yield { member: `images.${member}`, source: `^(?:${source})$`, flags: '', written: source }
}

/** Leaves redirects out that lead back to themselves. */
function leaveOutCircles(lists: Lists, name: string, warnings: Warnings): Lists {
  const handle = lists.routes.findIndex(({ route }) => route.handle !== undefined)
  const first = [...(handle === -1 ? lists.routes : lists.routes.slice(0, handle)), ...lists.redirects]
  const circles = new Set(findCircles(first.map(({ route }) => route)).map((place) => first[place]))
  for (const circle of circles)
    if (circle !== undefined)
      warnings.add(
        `${name}: ${circle.member} is left out: the redirect from ${JSON.stringify(circle.source.slice(0, 200))} leads back to itself.`,
      )
  const kept = (written: Written[]): Written[] => written.filter((each) => !circles.has(each))
  return { ...lists, routes: kept(lists.routes), redirects: kept(lists.redirects) }
}

/** Puts all routes in phases: the spelling of URLs first, and rewrites behind the files. */
function arrange({ spelling, routes, redirects, headers, rewrites }: Lists, tree: Tree, root: string): VercelRoute[] {
  const routesOf = (written: Written[]): VercelRoute[] =>
    written.map(({ route }) => (isOfCode(route, tree, root) ? { ...route, keepsPath: true } : route))
  return joinPhases<VercelRoute>(
    routesOf([...spelling]),
    routesOf(routes),
    routesOf([...redirects, ...headers]),
    rewrites.length === 0 ? [] : [{ handle: 'filesystem' }, ...routesOf(rewrites)],
  )
}

/** Whether a route leads to code, which on Vercel is a Function that sees the visitor's path. */
function isOfCode({ dest }: Route, { files }: Tree, root: string): boolean {
  const [path = ''] = dest?.split('?') ?? []
  if (!path.startsWith('/') || path.includes('$')) return false
  const name = path.replaceAll(/^\/+|\/+$/g, '')
  const below = root === '' ? '' : `${root}/`
  if (/\.[cm]?[jt]sx?$/.test(name)) return files.has(below + name)
  const index = name === '' ? 'index' : `${name}/index`
  return CODE.some((ending) => files.has(`${below}${name}.${ending}`) || files.has(`${below}${index}.${ending}`))
}
