import { createHash } from 'node:crypto'
import { readJson } from '@platform/build-output/read-json'
import { type Tree, UnusableOutput, WORKERS } from '@platform/build-output/read-output'
import { satisfies, valid, validRange } from 'semver'
import { z } from 'zod'
import { chooseManager, commandOf, type Manager, type ManagerKind, pinnedManager } from './package-managers.ts'

const text = z.string().max(4_096)
/** A member of another type is left to the project's own tools. */
const optional = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined)
const texts = optional(z.record(z.string(), z.unknown()))

const packageJson = z.looseObject({
  packageManager: optional(text),
  engines: optional(z.looseObject({ node: optional(text) })),
  scripts: texts,
  dependencies: texts,
  devDependencies: texts,
})
type PackageJson = z.infer<typeof packageJson>

const vercelJson = z.looseObject({
  buildCommand: text.nullish(),
  installCommand: text.nullish(),
  outputDirectory: text.nullish(),
})
/** Members of vercel.json that have no effect here. */
const QUIET = new Set([
  '$schema',
  'version',
  'framework',
  'buildCommand',
  'installCommand',
  'outputDirectory',
  'devCommand',
])

/** Lockfiles in order of precedence, if a folder has several and nothing else decides. */
const LOCKFILES: readonly { name: string; managers: readonly ManagerKind[] }[] = [
  { name: 'pnpm-lock.yaml', managers: ['pnpm'] },
  { name: 'yarn.lock', managers: ['yarn', 'berry'] },
  { name: 'package-lock.json', managers: ['npm'] },
  { name: 'npm-shrinkwrap.json', managers: ['npm'] },
]
const OTHERS = ['bun.lock', 'bun.lockb', 'deno.lock']
/** Members of package.json that affect installation. */
const INSTALLED_BY = [
  'dependencies',
  'devDependencies',
  'optionalDependencies',
  'peerDependencies',
  'overrides',
  'resolutions',
  'pnpm',
  'workspaces',
] as const
/** The format of lockfiles that the pinned Yarn writes. */
const BERRY_FORMAT = 10
const LOCKFILE_BYTES_MAX = 32 * 1_048_576

/** A command of a build, with its working folder below the project. */
export interface Command {
  argv: string[]
  folder: string
  /** As shown in the log. */
  shown: string
}

/** How a project is built. Folders are below the project, '' for its root. */
export interface BuildPlan {
  root: string
  manager: Manager
  /** undefined: nothing is installed. */
  install: Command | undefined
  /** Used instead of `install` if node_modules was restored. */
  reinstall: Command | undefined
  build: Command
  /** True if package.json names Next.js. */
  usesNext: boolean
  /** The configured output folder; undefined if it has to be detected. */
  outputDirectory: string | undefined
  /** Projects with the same key install the same packages. */
  cacheKey: string
  /** Environment variables for the package manager. */
  environment: Record<string, string>
  /** Sentences for the build log. */
  warnings: string[]
}

/** A path below a folder of the project; '' is its root. */
export const pathIn = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** A folder and its parents, up to the archive's root: ''. */
export function* upwards(folder: string): Generator<string> {
  for (let each = folder; ; each = each.slice(0, Math.max(0, each.lastIndexOf('/')))) {
    yield each
    if (each === '') return
  }
}

const readPackage = async (tree: Tree, folder: string): Promise<PackageJson | undefined> =>
  tree.files.has(pathIn(folder, 'package.json'))
    ? readJson(tree, pathIn(folder, 'package.json'), packageJson)
    : undefined

async function readVercel(tree: Tree, root: string): Promise<z.infer<typeof vercelJson>> {
  const path = pathIn(root, 'vercel.json')
  return tree.files.has(path) ? readJson(tree, path, vercelJson) : {}
}

/** Whether a folder holds source that has to be built before it can be served. */
export async function needsBuild(tree: Tree, root: string): Promise<boolean> {
  if (tree.files.has(pathIn(root, '.vercel/output/config.json'))) return false
  if (WORKERS.some((name) => tree.files.has(pathIn(root, name)))) return false
  const manifest = await readPackage(tree, root)
  if (manifest === undefined) return false
  // Next.js's standalone output: a complete server, and the package.json of its source.
  if (
    tree.files.has(pathIn(root, 'server.js')) &&
    tree.files.keys().some((path) => path.startsWith(pathIn(root, 'node_modules/')))
  )
    return false
  const { buildCommand } = await readVercel(tree, root)
  return buildCommand === '' ? false : typeof (buildCommand ?? manifest.scripts?.['build']) === 'string'
}

interface Wanted {
  kind: ManagerKind
  version: string
}

/** Parses `packageManager` (`pnpm@9.1.0+sha512.…`). Returns a sentence if it cannot be followed. */
function readWanted(value: string | undefined): Wanted | string | undefined {
  if (value === undefined) return undefined
  const [, name = '', written = ''] = /^(npm|pnpm|yarn)@([^+]+)/.exec(value) ?? []
  const version = valid(written)
  if (version === null)
    return `package.json names the package manager ${JSON.stringify(value.slice(0, 100))}, which is not npm, pnpm or yarn with a version: its lockfile decides.`
  const kind =
    name === 'yarn' ? (version.startsWith('1.') || version.startsWith('0.') ? 'yarn' : 'berry') : (name as ManagerKind)
  return { kind, version }
}

interface Locked {
  folder: string
  /** From the archive's root. */
  path: string
  kind: ManagerKind
  /** The major version that wrote it, if the pinned one cannot read it. */
  version: string | undefined
  /** The pinned version can read it, but would rewrite it. */
  isOlder: boolean
  content: Buffer
}

async function readLockfile(tree: Tree, path: string): Promise<Omit<Locked, 'folder' | 'path'>> {
  if ((tree.files.get(path)?.bytes ?? 0) > LOCKFILE_BYTES_MAX)
    throw new UnusableOutput(`${path} is larger than ${LOCKFILE_BYTES_MAX / 1_048_576} MiB`)
  const content = await tree.read(path)
  const head = content.toString('latin1', 0, 1_000)
  const plain = { version: undefined, isOlder: false, content }
  if (path.endsWith('yarn.lock')) {
    const format = /^__metadata:\s+version:\s*(\d+)/m.exec(head)?.[1]
    return { ...plain, kind: format === undefined ? 'yarn' : 'berry', isOlder: Number(format) < BERRY_FORMAT }
  }
  if (!path.endsWith('pnpm-lock.yaml')) return { ...plain, kind: 'npm' }
  const format = Number(/^lockfileVersion:\s*'?(\d+)/m.exec(head)?.[1] ?? 9)
  // pnpm reads only its own formats, and no older ones.
  return { ...plain, kind: 'pnpm', version: format <= 5 ? '7' : format <= 6 ? '8' : undefined }
}

/** The relevant lockfile: the nearest one; if a folder has several, that of the wanted manager. */
async function findLockfile(tree: Tree, root: string, wanted: Wanted | undefined): Promise<Locked | undefined> {
  for (const folder of upwards(root)) {
    const here = LOCKFILES.filter(({ name }) => tree.files.has(pathIn(folder, name)))
    const chosen = here.find(({ managers }) => wanted !== undefined && managers.includes(wanted.kind)) ?? here[0]
    if (chosen) {
      const path = pathIn(folder, chosen.name)
      return { folder, path, ...(await readLockfile(tree, path)) }
    }
  }
  return undefined
}

const MODES = {
  npm: {
    locked: ['ci', '--include=dev', '--no-audit', '--no-fund'],
    free: ['install', '--include=dev', '--no-audit', '--no-fund'],
  },
  pnpm: { locked: ['install', '--frozen-lockfile'], free: ['install', '--no-frozen-lockfile'] },
  yarn: { locked: ['install', '--frozen-lockfile', '--non-interactive'], free: ['install', '--non-interactive'] },
  berry: { locked: ['install', '--immutable'], free: ['install', '--no-immutable'] },
} satisfies Record<ManagerKind, { locked: string[]; free: string[] }>

const inShell = (script: string, folder: string): Command => ({
  argv: ['/bin/sh', '-c', script],
  folder,
  shown: script,
})

function nodeWarning(engines: PackageJson['engines'], nodeVersion: string): string[] {
  const range = engines?.node
  if (range === undefined || (validRange(range) !== null && satisfies(nodeVersion, range))) return []
  return [`package.json asks for Node ${range.slice(0, 100)}; builds and Functions run on Node ${nodeVersion}.`]
}

/** Environment variables for a package manager. */
async function environmentOf(kind: ManagerKind, tree: Tree, folder: string): Promise<Record<string, string>> {
  // The version has already been chosen.
  if (kind === 'pnpm') return { npm_config_manage_package_manager_versions: 'false', npm_config_pm_on_fail: 'ignore' }
  if (kind !== 'berry') return {}
  // Below the project, where it can be cached.
  const cache = { YARN_ENABLE_GLOBAL_CACHE: '0', YARN_ENABLE_MIRROR: '0' }
  // A linker that creates node_modules, unless the project chose one: only that can be cached and served.
  const path = pathIn(folder, '.yarnrc.yml')
  const settings = tree.files.has(path) ? (await tree.read(path)).toString('utf8') : ''
  return /^nodeLinker:/m.test(settings) ? cache : { ...cache, YARN_NODE_LINKER: 'node-modules' }
}

/**
 * Plans how to build a project: its package manager (`packageManager`, else the nearest lockfile, else npm), and its commands
 * (vercel.json, else the build script).
 *
 * root: below the archive, without slashes at its ends. canFetch: other versions of the package manager can be fetched from a
 * registry.
 * Throws UnusableOutput if a manifest cannot be read.
 */
export async function planBuild(
  tree: Tree,
  root: string,
  { nodeVersion = process.versions.node, canFetch }: { nodeVersion?: string; canFetch: boolean },
): Promise<BuildPlan> {
  const manifest = (await readPackage(tree, root)) ?? {}
  const settings = await readVercel(tree, root)
  const warnings = nodeWarning(manifest.engines, nodeVersion)
  for (const name of Object.keys(settings))
    if (!QUIET.has(name)) warnings.push(`vercel.json: \`${name.slice(0, 100)}\` is ignored.`)

  let named: string | undefined
  for (const folder of upwards(root)) named ??= (await readPackage(tree, folder))?.packageManager
  const read = readWanted(named)
  if (typeof read === 'string') warnings.push(read)
  const wanted = typeof read === 'string' ? undefined : read
  const lock = await findLockfile(tree, root, wanted)
  const others = OTHERS.filter((name) => tree.files.has(pathIn(root, name)))
  if (lock === undefined)
    warnings.push(
      `There is no lockfile of npm, pnpm or yarn${others.length > 0 ? ` (${others.join(', ')} is not read)` : ''}, so the newest versions that package.json allows are installed.`,
    )

  const kind = wanted?.kind ?? lock?.kind ?? 'npm'
  let manager = chooseManager(kind, wanted?.version ?? (lock?.kind === kind ? lock.version : undefined))
  if (manager.isFetched && !canFetch) {
    const pinned = pinnedManager(kind)
    warnings.push(
      `The project wants ${kind} ${manager.version}, which cannot be fetched here: ${pinned.version} is used.`,
    )
    manager = { kind, version: pinned.version, isFetched: false }
  }
  const command = commandOf(manager)
  const call = (args: string[], folder: string): Command => ({
    argv: [...command, ...args],
    folder,
    shown: [pinnedManager(kind).command, ...args].join(' '),
  })

  // A manager cannot use another manager's lockfile.
  const isLocked = lock?.kind === kind && (manager.isFetched || !lock.isOlder)
  const folder = lock?.folder ?? root
  const { installCommand, buildCommand, outputDirectory } = settings
  const skipsInstall = installCommand === ''
  const install = skipsInstall
    ? undefined
    : typeof installCommand === 'string'
      ? inShell(installCommand, root)
      : call(MODES[kind][isLocked ? 'locked' : 'free'], folder)
  // `npm ci` first removes node_modules; the restored one was installed by it, from the same lockfile.
  const reinstall =
    install !== undefined && kind === 'npm' && isLocked && typeof installCommand !== 'string'
      ? call([...MODES.npm.free, '--no-save', '--prefer-offline'], folder)
      : install
  const build =
    typeof buildCommand === 'string' && buildCommand !== '' ? inShell(buildCommand, root) : call(['run', 'build'], root)

  const key = createHash('sha256')
  const add = (part: string | Buffer): void => void key.update(`${part.length}\n`).update(part)
  add(`${kind}@${manager.version.split('.', 1)[0]} node@${nodeVersion.split('.', 1)[0]} ${folder}`)
  add(lock?.content ?? '')
  for (const each of new Set([folder, root])) {
    const own = await readPackage(tree, each)
    add(JSON.stringify(INSTALLED_BY.map((name) => own?.[name] ?? null)))
  }
  return {
    root,
    manager,
    install,
    reinstall,
    build,
    usesNext: [manifest.dependencies, manifest.devDependencies].some((each) => each?.['next'] !== undefined),
    outputDirectory: typeof outputDirectory === 'string' && outputDirectory !== '' ? outputDirectory : undefined,
    cacheKey: key.digest('hex'),
    environment: await environmentOf(kind, tree, folder),
    warnings,
  }
}
