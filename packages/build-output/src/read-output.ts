import { z } from 'zod'
import { openPatternChecker, type PatternChecker } from './check-pattern.ts'
import type { Output, Tree } from './output.ts'
import type { KeptVerdicts } from './pattern-verdict.ts'
import { putVercelInFront } from './put-vercel-in-front.ts'
import { readBuildOutput } from './read-build-output.ts'
import { readJson } from './read-json.ts'
import { findNextServer } from './read-next-server.ts'
import { type PlainOptions, readPlainFiles } from './read-plain-files.ts'
import { chooseStart, type ChosenStart } from './start-script.ts'
import { hasCatchAll, type VercelConfig } from './read-vercel.ts'
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
/** Cloudflare Pages allows 100 rules of 100 characters. */
const workerRule = z.string().startsWith('/').max(100)
const workerRoutes = z
  .looseObject({ version: z.literal(1), include: z.array(workerRule), exclude: z.array(workerRule).default([]) })
  .refine(({ include, exclude }) => include.length > 0 && include.length + exclude.length <= 100, {
    message: 'has to include a rule, and have at most 100',
  })
  .transform(({ include, exclude }) => ({ include, exclude }))

export interface ReadOptions {
  /** Verdicts on patterns from before; without them each pattern is analyzed. */
  kept?: KeptVerdicts
  /** What vercel.json in the root directory of the upload says. */
  vercel?: VercelConfig | undefined
  /** The domain of the platform's hostnames. Without it, no rule of `_headers` is left out for its host. */
  appsHostname?: string
}

/**
 * Reads the contents of an archive below a directory: Build Output, a worker, a Node server, or plain files. It looks at paths and
 * manifests only, so source that has yet to be built is read as what it looks like. rootDirectory: '' for the archive's root.
 *
 * Throws UnusableOutput for malformed contents.
 */
export async function readOutput(tree: Tree, rootDirectory: string, options: ReadOptions = {}): Promise<Output> {
  const checker = openPatternChecker({ kept: options.kept })
  try {
    return await readChecked(tree, rootDirectory, checker, options)
  } finally {
    await checker.close()
  }
}

async function readChecked(
  tree: Tree,
  rootDirectory: string,
  checker: PatternChecker,
  { appsHostname, vercel }: ReadOptions,
): Promise<Output> {
  const root = treePath(rootDirectory.replace(/^\/+/, ''), '', 'The root directory')
  const below = root === '' ? '' : `${root}/`
  const output = await readOwn(tree, root, checker, {
    appsHostname,
    hasCatchAll: vercel !== undefined && hasCatchAll(vercel),
  })
  return vercel === undefined ? output : putVercelInFront(output, vercel, tree, below)
}

/** Reads an output with the rules of its own. */
async function readOwn(tree: Tree, root: string, checker: PatternChecker, options: PlainOptions): Promise<Output> {
  const below = root === '' ? '' : `${root}/`
  if (tree.files.has(`${below}.vercel/output/config.json`)) return readBuildOutput(tree, root, checker)
  const worker = WORKERS.map((name) => below + name).find((path) => tree.files.has(path))
  if (worker !== undefined) return readWorker(tree, below, worker, checker, options)
  const server = await readServer(tree, below, checker)
  return server ?? readPlainFiles(tree, below, checker, options)
}

/**
 * Reads a worker in front of plain files, and the paths that it handles (`_routes.json`, Cloudflare Pages). The folder
 * `_worker.js/` contains a worker of several modules.
 */
async function readWorker(
  tree: Tree,
  below: string,
  entry: string,
  checker: PatternChecker,
  options: PlainOptions,
): Promise<Output> {
  const isFolder = entry.startsWith(`${below}_worker.js/`)
  const folder = isFolder ? `${below}_worker.js/` : below
  const files = new Map<string, string>()
  for (const path of tree.files.keys())
    if (isFolder ? path.startsWith(folder) : path === entry) files.set(path.slice(folder.length), path)
  const hasRoutes = tree.files.has(`${below}_routes.json`)
  const worker = hasRoutes
    ? await readJson(tree, `${below}_routes.json`, workerRoutes)
    : { include: ['/*'], exclude: [] }
  const site = await readPlainFiles(tree, below, checker, { ...options, hasWorker: true })
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
