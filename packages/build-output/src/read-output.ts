import { z } from 'zod'
import { openPatternChecker, type PatternChecker } from './check-pattern.ts'
import { contentTypeOf } from './content-type.ts'
import { normalizeWrittenPath } from './normalize-path.ts'
import { type Asset, isServable, type Output, type Tree, UnusableOutput } from './output.ts'
import { parseHeaders } from './parse-headers.ts'
import { parseRedirects } from './parse-redirects.ts'
import type { KeptVerdicts } from './pattern-verdict.ts'
import { readBuildOutput } from './read-build-output.ts'
import { readJson } from './read-json.ts'
import { findNextServer } from './read-next-server.ts'
import { compilePath } from './route-static-site.ts'
import { chooseStart, type ChosenStart } from './start-script.ts'
import { treePath } from './tree-path.ts'

export { type Output, type Tree, UnusableOutput } from './output.ts'

/** Next's standalone server, and Nitro's. */
const NITRO_SERVER = '.output/server/index.mjs'
const SERVERS = ['server.js', NITRO_SERVER]
/** Where frameworks' adapters leave a server that nobody wrote a script for, by the package of the adapter. */
const ADAPTER_SERVERS: Readonly<Record<string, string>> = {
  '@astrojs/node': 'dist/server/entry.mjs',
  '@sveltejs/adapter-node': 'build/index.js',
}
/**
 * Variables without which a framework's server refuses visitors, or their forms: that it stands behind an edge, which has checked the
 * host and sets these headers.
 */
const SERVER_VARIABLES: Readonly<Record<string, Record<string, string>>> = {
  '@sveltejs/adapter-node': { PROTOCOL_HEADER: 'x-forwarded-proto', HOST_HEADER: 'x-forwarded-host' },
  '@angular/ssr': { NG_ALLOWED_HOSTS: '*', NG_TRUST_PROXY_HEADERS: 'x-forwarded-host,x-forwarded-proto' },
}
const packages = z.record(z.string(), z.unknown()).optional().catch(undefined)
const packageJson = z.object({
  main: z.unknown().optional(),
  scripts: packages,
  dependencies: packages,
  devDependencies: packages,
})
export const WORKERS = ['_worker.js', '_worker.js/index.js']
const SITE_FILES = new Set(['_redirects', '_headers'])
const isOfWorker = (path: string): boolean => path === '_routes.json' || /^_worker\.js(?:\/|$)/.test(path)
/** Cloudflare Pages allows 100 rules of 100 characters. */
const workerRule = z.string().startsWith('/').max(100)
const workerRoutes = z
  .looseObject({ version: z.literal(1), include: z.array(workerRule), exclude: z.array(workerRule).default([]) })
  .refine(({ include, exclude }) => include.length > 0 && include.length + exclude.length <= 100, {
    message: 'has to include a rule, and have at most 100',
  })
  .transform(({ include, exclude }) => ({ include, exclude }))
/** The maximum number of rules, times the maximum length of a line. */
const SITE_FILE_BYTES_MAX = 4 * 1024 * 1024

export interface ReadOptions {
  /** Verdicts on patterns from before; without them each pattern is analyzed. */
  kept?: KeptVerdicts
}

/**
 * Reads the contents of an archive below a directory: Build Output, a worker, a Node server, or plain files. It looks at paths and
 * manifests only, so source that has yet to be built is read as what it looks like. rootDirectory: '' for the archive's root.
 *
 * Throws UnusableOutput for malformed contents.
 */
export async function readOutput(tree: Tree, rootDirectory: string, { kept }: ReadOptions = {}): Promise<Output> {
  const checker = openPatternChecker({ kept })
  try {
    return await readChecked(tree, rootDirectory, checker)
  } finally {
    await checker.close()
  }
}

async function readChecked(tree: Tree, rootDirectory: string, checker: PatternChecker): Promise<Output> {
  const root = treePath(rootDirectory.replace(/^\/+/, ''), '', 'The root directory')
  const below = root === '' ? '' : `${root}/`
  if (tree.files.has(`${below}.vercel/output/config.json`)) return readBuildOutput(tree, root, checker)
  const worker = WORKERS.map((name) => below + name).find((path) => tree.files.has(path))
  if (worker !== undefined) return readWorker(tree, below, worker, checker)
  const server = await readServer(tree, below, checker)
  return server ?? readPlainFiles(tree, below, checker)
}

/**
 * Reads a worker in front of plain files, and the paths that it handles (`_routes.json`, Cloudflare Pages). The folder
 * `_worker.js/` contains a worker of several modules.
 */
async function readWorker(tree: Tree, below: string, entry: string, checker: PatternChecker): Promise<Output> {
  const isFolder = entry.startsWith(`${below}_worker.js/`)
  const folder = isFolder ? `${below}_worker.js/` : below
  const files = new Map<string, string>()
  for (const path of tree.files.keys())
    if (isFolder ? path.startsWith(folder) : path === entry) files.set(path.slice(folder.length), path)
  const hasRoutes = tree.files.has(`${below}_routes.json`)
  const worker = hasRoutes
    ? await readJson(tree, `${below}_routes.json`, workerRoutes)
    : { include: ['/*'], exclude: [] }
  const site = await readPlainFiles(tree, below, checker, true)
  return {
    ...site,
    manifest: { ...site.manifest, kind: 'worker', worker, functions: { '_worker.js': { function: '_worker.js' } } },
    functions: [
      {
        path: '_worker.js',
        kind: 'worker',
        handler: entry.slice(folder.length),
        isWeb: true,
        hasHelpers: false,
        environment: {},
        files,
      },
    ],
  }
}

/** How a folder's Node server is started: by a module, or by a command. */
export interface FoundServer {
  handler: string | undefined
  command: string | undefined
  /** The script of package.json; undefined: the module is known by its name. */
  script: ChosenStart | undefined
  /** Variables that its framework needs here. */
  environment: Record<string, string>
}

/**
 * Finds how to start a folder's Node server: by a script of package.json whose program is there, by `server.js`, Nitro's module or that
 * of a framework's adapter, or else by the start script. below: '' or a folder with a trailing slash. Returns undefined if there is no
 * server.
 */
export async function findServer(tree: Tree, below: string): Promise<FoundServer | undefined> {
  const path = `${below}package.json`
  const manifest = tree.files.has(path) ? await readJson(tree, path, packageJson) : undefined
  const { scripts = {}, main, dependencies = {}, devDependencies = {} } = manifest ?? {}
  const uses = (name: string): boolean => Object.hasOwn(dependencies, name) || Object.hasOwn(devDependencies, name)
  const namesOf = <T>(known: Readonly<Record<string, T>>): T[] =>
    Object.entries(known).flatMap(([name, value]) => (uses(name) ? [value] : []))
  const has = (name: string): boolean => tree.files.has(below + name)
  const environment: Record<string, string> = Object.assign({}, ...namesOf(SERVER_VARIABLES))
  const script = chooseStart({ scripts, main }, has)
  if (script?.file !== undefined)
    return script.isPlain
      ? { handler: script.file, command: undefined, script, environment }
      : { handler: undefined, command: script.command, script, environment }
  const modules = [...namesOf(ADAPTER_SERVERS), ...(typeof scripts['start'] === 'string' ? [NITRO_SERVER] : SERVERS)]
  const handler = modules.find(has)
  if (handler !== undefined) return { handler, command: undefined, script: undefined, environment }
  return script && { handler: undefined, command: script.command, script, environment }
}

/** Says by what a server is started, and which scripts were passed over. */
function describeStart(server: FoundServer): string {
  const { script, handler } = server
  if (script === undefined) return `Started by the module ${handler}`
  const shown = (command: string, length: number): string => command.replace(/\s+/g, ' ').slice(0, length)
  const passed = script.passedOver.map(({ name, command }) => `${name} (${shown(command, 100)})`)
  const over = passed.length === 0 ? '' : `; passed over, as no program that is there: ${passed.join(', ')}`
  return `Started by the script ${script.name}: ${shown(script.command, 200)}${over}`
}

/** Reads a Node server, which handles every path. Returns undefined if there is none. */
async function readServer(tree: Tree, below: string, checker: PatternChecker): Promise<Output | undefined> {
  const { below: nextBelow = below, distDir } = tree.nextServer ?? {}
  // A server of a workspace has files outside of its own folder.
  const base = tree.serverFolder ?? below
  const inBase = below.slice(base.length)
  const next = await findNextServer(tree, nextBelow, checker, distDir)
  const server: FoundServer | undefined = next
    ? { handler: next.module.slice(below.length), command: undefined, script: undefined, environment: {} }
    : await findServer(tree, below)
  if (server === undefined) return undefined
  const files = new Map<string, string>()
  for (const source of tree.files.keys()) if (source.startsWith(base)) files.set(source.slice(base.length), source)
  const links = new Map<string, string>()
  for (const [path, target] of tree.links ?? []) if (path.startsWith(base)) links.set(path.slice(base.length), target)
  const entry = inBase + (server.handler ?? 'package.json')
  return {
    manifest: {
      version: 1,
      kind: 'server',
      routes: [],
      wildcard: [],
      site: null,
      functions: { [entry]: { function: entry } },
      ...(next && { staticFolder: next.staticFolder }),
      ...(next?.images && { images: next.images }),
    },
    assets: next?.assets ?? [],
    fallbacks: [],
    functions: [
      {
        path: entry,
        kind: 'server',
        ...(server.command === undefined ? { handler: entry } : { command: server.command }),
        ...(inBase !== '' && { workingFolder: inBase.slice(0, -1) }),
        isWeb: false,
        hasHelpers: false,
        environment: server.environment,
        files,
        links,
      },
    ],
    notes: [describeStart(server)],
    ...(server.script && { start: server.script }),
    warnings: [],
  }
}

/** Returns the rule paths whose patterns are worse than quadratic: many names within one segment. */
async function findSlowPaths(paths: readonly string[], checker: PatternChecker): Promise<ReadonlySet<string>> {
  const slow = new Set<string>()
  for (const path of paths) {
    const verdict = await checker.checkPattern(compilePath(normalizeWrittenPath(path)).source, '')
    if (verdict.kind !== 'safe') slow.add(path)
  }
  return slow
}

/** Explains in a sentence why `/` responds with 404, and what to do; undefined if there is an index page. */
function whyNoIndex(assets: readonly Asset[]): string | undefined {
  const depthOf = ({ path }: Asset) => path.split('/').length
  const pages = assets
    .filter(({ path }) => /(?:^|\/)index\.html?$/.test(path))
    .toSorted((a, b) => depthOf(a) - depthOf(b))
  const [nearest] = pages
  if ((nearest && depthOf(nearest) === 1) || assets.some(({ path }) => path === '200.html')) return undefined
  if (!nearest) return 'There is no index.html, so / answers 404.'
  const folder = nearest.path.slice(0, nearest.path.lastIndexOf('/'))
  return `There is no index.html at the top, so / answers 404. It is in ${folder}: zip what is in that folder, or set rootDirectory to it.`
}

async function readPlainFiles(tree: Tree, below: string, checker: PatternChecker, hasWorker = false): Promise<Output> {
  const assets: Asset[] = []
  const warnings: string[] = []
  let hidden = 0
  let installed = 0
  for (const source of tree.files.keys()) {
    if (!source.startsWith(below)) continue
    const path = source.slice(below.length)
    if (path === '' || SITE_FILES.has(path) || (hasWorker && isOfWorker(path))) continue
    if (/(?:^|\/)node_modules\//.test(path)) installed++
    else if (isServable(path)) assets.push({ path, source, contentType: contentTypeOf(path) })
    else hidden++
  }
  if (assets.length === 0 && !hasWorker) {
    const where = below === '' ? 'The archive' : `The directory ${below.slice(0, -1)}`
    throw new UnusableOutput(`${where} holds no file that can be served.`)
  }
  if (installed > 0) warnings.push(`node_modules is left out, with its ${installed} files.`)
  if (hidden > 0) warnings.push(`Files of names that begin with a dot are left out: ${hidden}.`)

  const textOf = async (name: string): Promise<string> => {
    const file = tree.files.get(below + name)
    if (file === undefined) return ''
    if (file.bytes > SITE_FILE_BYTES_MAX)
      throw new UnusableOutput(`${below}${name} is larger than ${SITE_FILE_BYTES_MAX / 1024 / 1024} MB.`)
    return (await tree.read(below + name)).toString('utf8')
  }
  const redirects = parseRedirects(await textOf('_redirects'))
  const headers = parseHeaders(await textOf('_headers'))
  const hasRoot = redirects.redirects.some(({ from }) => from === '/' || from === '/*')
  const missing = hasRoot || hasWorker ? undefined : whyNoIndex(assets)
  if (missing !== undefined) warnings.unshift(missing)
  const slow = await findSlowPaths(
    [...redirects.redirects.map(({ from }) => from), ...headers.headers.map(({ path }) => path)],
    checker,
  )
  for (const path of slow) warnings.push(`The rules for ${path} are left out: it takes too long to match some paths.`)
  return {
    manifest: {
      version: 1,
      kind: 'static',
      routes: [],
      wildcard: [],
      site: {
        redirects: redirects.redirects.filter(({ from }) => !slow.has(from)),
        headers: headers.headers.filter(({ path }) => !slow.has(path)),
      },
      functions: {},
    },
    assets,
    functions: [],
    fallbacks: [],
    notes: [],
    warnings: [...warnings, ...redirects.warnings, ...headers.warnings],
  }
}
