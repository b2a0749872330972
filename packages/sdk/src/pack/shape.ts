import { pathIn } from './source.ts'

/**
 * What the platform takes a folder for (docs/builds.md, docs/deployments.md). source: it is installed, and perhaps built. server,
 * worker, build-output: it runs as it is. pages: its files are served.
 */
export type Shape = 'source' | 'build-output' | 'worker' | 'server' | 'pages'

/** A folder as the platform would see it, without the `node_modules` that are still to be decided. */
export interface FolderView {
  has(path: string): boolean
  /** The members of a file of JSON; none if it is not there. */
  readJson(path: string): Promise<Record<string, unknown>>
  /** Whether packages are beside the site or above it. */
  hasModules: boolean
}

/** Where adapters leave a server that needs no script, by their package. */
const ADAPTER_SERVERS: Record<string, string> = {
  '@astrojs/node': 'dist/server/entry.mjs',
  '@sveltejs/adapter-node': 'build/index.js',
}

const membersOf = (value: unknown): Record<string, unknown> => Object(value) as Record<string, unknown>
const isText = (value: unknown): boolean => typeof value === 'string' && value.trim() !== ''

/** Decides as the platform does once the folder has arrived. root: of the site, '' for the top. */
export async function findShape({ has, readJson, hasModules }: FolderView, root: string): Promise<Shape> {
  const hasFile = (name: string): boolean => has(pathIn(root, name))
  if (hasFile('.vercel/output/config.json')) return 'build-output'
  if (hasFile('_worker.js') || hasFile('_worker.js/index.js')) return 'worker'
  const manifest = await readJson(pathIn(root, 'package.json'))
  const scripts = membersOf(manifest['scripts'])
  const hasServer = hasFile('server.js')
  // Beside `start`, whether its program is there is not looked at: without one only the packages are sent in vain.
  const isStarted = Object.keys(scripts).some(
    (name) => /^(?:start(?:|:prod|:production)$|serve:ssr:)/.test(name) && isText(scripts[name]),
  )
  if (hasFile('package.json') && !(hasServer && hasModules)) {
    const { buildCommand, installCommand } = await readJson(pathIn(root, 'vercel.json'))
    if (isText(buildCommand ?? scripts['build'])) return 'source'
    const needs = { ...membersOf(manifest['dependencies']), ...membersOf(manifest['optionalDependencies']) }
    const isServer = hasServer || isStarted
    if (isServer && !hasModules && Object.keys(needs).length > 0 && installCommand !== '') return 'source'
  }
  const uses = { ...membersOf(manifest['dependencies']), ...membersOf(manifest['devDependencies']) }
  const isAdapted = Object.entries(ADAPTER_SERVERS).some(([name, file]) => Object.hasOwn(uses, name) && hasFile(file))
  return hasServer || isStarted || isAdapted || hasFile('.output/server/index.mjs') ? 'server' : 'pages'
}

/**
 * Where the content of a folder has to stand in an archive: what a framework left is known by its own folder's name. names: of the
 * top. Returns '' for all other folders.
 */
export async function findPrefix(
  names: ReadonlySet<string>,
  { has, readJson }: Pick<FolderView, 'has' | 'readJson'>,
): Promise<string> {
  if (names.has('package.json') || names.has('index.html')) return ''
  const isOutput = names.has('config.json') && (names.has('static') || names.has('functions'))
  if (isOutput && (await readJson('config.json'))['version'] === 3) return '.vercel/output/'
  const isNitro = has('server/index.mjs') && !names.has('server.js') && !names.has('_worker.js')
  return isNitro ? '.output/' : ''
}
