import { createHash } from 'node:crypto'
import { readJson } from '@platform/build-output/read-json'
import { chooseStart } from '@platform/build-output/start-script'
import { type Tree, WORKERS } from '@platform/build-output/read-output'
import { major, valid } from 'semver'
import { z } from 'zod'
import { findLockfile, type Lockfile, warnOfLockfile } from './lockfile.ts'
import {
  dependsOn,
  type PackageJson,
  pathIn,
  printable,
  readPackage,
  readText,
  readVercel,
  readYaml,
  upwards,
} from './manifests.ts'
import { checkNodeVersion } from './node-version.ts'
import {
  chooseManager,
  fetchCommandOf,
  type Manager,
  type ManagerKind,
  pinnedManager,
  PNPM_ENVIRONMENT,
} from './package-managers.ts'
import { findNeeds, findWorkspace, findWorkspaceTool, hasScript, type WorkspacePackage } from './workspace.ts'

const WARNINGS_MAX = 50
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
/** The last major version of pnpm that links packages of a workspace by their versions. */
const PNPM_LINKS_BY_VERSION = 8
/** The last major version of pnpm that reads settings of package.json, and names packages whose install scripts run one by one. */
const PNPM_OF_PACKAGE_JSON = '10'
const PNPM_10_SETTINGS = ['onlyBuiltDependencies', 'neverBuiltDependencies', 'ignoredBuiltDependencies']

/** What npm allows; it becomes an argument. */
const PACKAGE_NAME = /^(?:@[a-z0-9~][\w.~-]*\/)?[a-z0-9~][\w.~-]*$/i
const projectJson = z.object({ name: z.string().max(214).optional().catch(undefined) })

/** A command of a build, with its working folder below the project. */
export interface Command {
  argv: string[]
  folder: string
  /** As shown in the log. */
  shown: string
}

/** How a project is installed and built. Folders are below the project, '' for its root. */
export interface BuildPlan {
  root: string
  manager: Manager
  /** What decides on the manager: a file, or a member of one. */
  managerBy: string
  /** Installs the manager that the project names, unless the platform has it. */
  fetch: Command | undefined
  /** undefined: nothing is installed. */
  install: Command | undefined
  /** Used instead of `install` if node_modules was restored. */
  reinstall: Command | undefined
  /** In their order; none if the project is only installed. */
  builds: Command[]
  /** Folders of the packages of its workspace that the site needs. */
  needed: string[]
  /** The lockfile that is installed as it is, from the archive's root; undefined if versions are chosen anew. */
  lockfile: string | undefined
  /** True if package.json names Next.js. */
  usesNext: boolean
  /** The configured output folder; undefined if it has to be detected. */
  outputDirectory: string | undefined
  /** Projects with the same key install the same packages. */
  cacheKey: string
  /** Environment variables for the package manager. */
  environment: Record<string, string>
  /** Sentences for the build log, in their order: what was found, the package manager, Node. */
  notes: { type: 'INFO' | 'WARN'; text: string }[]
  /** A sentence to repeat with each failure: what is asked of Node. */
  caveat: string | undefined
}

/** Whether there are packages at a folder of the archive, or above it. */
function bringsModules(tree: Tree, root: string): boolean {
  const places = new Set([...upwards(root)].map((folder) => pathIn(folder, 'node_modules/')))
  return tree.files.keys().some((path) => {
    const end = path.indexOf('node_modules/') + 'node_modules/'.length
    // Caches of tools are no packages.
    return end >= 'node_modules/'.length && path[end] !== '.' && places.has(path.slice(0, end))
  })
}

/** Whether there are packages that a server may need, beside those of its development. */
const hasDependencies = ({ dependencies, optionalDependencies }: PackageJson): boolean =>
  [dependencies, optionalDependencies].some((each) => Object.keys(each ?? {}).length > 0)

/** The command of a build, unless vercel.json says that there is none: its own, or the build script. */
async function buildOf(tree: Tree, root: string, manifest: PackageJson): Promise<string | undefined> {
  const { buildCommand } = await readVercel(tree, root)
  const command = buildCommand ?? manifest.scripts?.['build']
  return typeof command === 'string' && command !== '' ? command : undefined
}

/** Whether a folder holds source: its packages have to be installed, or it has to be built, before it can be served. */
export async function isSource(tree: Tree, root: string): Promise<boolean> {
  if (tree.files.has(pathIn(root, '.vercel/output/config.json'))) return false
  if (WORKERS.some((name) => tree.files.has(pathIn(root, name)))) return false
  const manifest = await readPackage(tree, root)
  if (manifest === undefined) return false
  const hasServer = tree.files.has(pathIn(root, 'server.js'))
  const hasModules = bringsModules(tree, root)
  // Next.js's standalone output: a complete server, and the package.json of its source.
  if (hasServer && hasModules) return false
  if ((await buildOf(tree, root, manifest)) !== undefined) return true
  const isServer = hasServer || chooseStart(manifest, (path) => tree.files.has(pathIn(root, path))) !== undefined
  const { installCommand } = await readVercel(tree, root)
  return isServer && !hasModules && hasDependencies(manifest) && installCommand !== ''
}

interface Wanted {
  kind: ManagerKind
  version: string
}

/** Parses `packageManager` (`pnpm@9.1.0+sha512.…`). Returns a sentence if it cannot be followed. */
function readWanted(value: string): Wanted | string {
  const [, name = '', written = ''] = /^(npm|pnpm|yarn)@([^+]+)/.exec(value) ?? []
  const version = valid(written)
  if (version === null)
    return `package.json names the package manager ${JSON.stringify(value.slice(0, 100))}, which is not npm, pnpm or yarn with a version: its lockfile decides.`
  const kind =
    name === 'yarn' ? (version.startsWith('1.') || version.startsWith('0.') ? 'yarn' : 'berry') : (name as ManagerKind)
  return { kind, version }
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

/** Environment variables for a package manager. isNamed: package.json names it, so it does what it does at its author's. */
async function environmentOf(
  { kind, isFetched }: Manager,
  isNamed: boolean,
  tree: Tree,
  folder: string,
): Promise<Record<string, string>> {
  if (kind === 'pnpm' && !isFetched)
    return {
      ...PNPM_ENVIRONMENT,
      // pnpm 9 and 10 wrote the same lockfiles, and went on without these scripts.
      ...(!isNamed && { pnpm_config_strict_dep_builds: 'false' }),
    }
  if (kind !== 'berry') return {}
  // Below the project, where it can be cached.
  const cache = { YARN_ENABLE_GLOBAL_CACHE: '0', YARN_ENABLE_MIRROR: '0' }
  // A linker that creates node_modules, unless the project chose one: only that can be cached and served.
  const settings = await readYaml(tree, pathIn(folder, '.yarnrc.yml'))
  return settings['nodeLinker'] === undefined ? { ...cache, YARN_NODE_LINKER: 'node-modules' } : cache
}

/** The major version of pnpm that a project without `packageManager` was made with, if its settings tell. */
async function findPnpmVersion(tree: Tree, { folder }: Lockfile): Promise<string | undefined> {
  const manifest = await readPackage(tree, folder)
  const settings = await readYaml(tree, pathIn(folder, 'pnpm-workspace.yaml'))
  const isOld = manifest?.['pnpm'] !== undefined || PNPM_10_SETTINGS.some((name) => settings[name] !== undefined)
  return isOld ? PNPM_OF_PACKAGE_JSON : undefined
}

const hasWorkspaceFile = (tree: Tree, root: string): boolean =>
  upwards(root).some((folder) => tree.files.has(pathIn(folder, 'pnpm-workspace.yaml')))

/** Whether pnpm links packages of the workspace that say nothing of it, as npm and Yarn do. */
async function linksByVersion(tree: Tree, folder: string, { kind, version }: Manager): Promise<boolean> {
  if (kind !== 'pnpm' || Number(version.split('.', 1)[0]) <= PNPM_LINKS_BY_VERSION) return true
  const { linkWorkspacePackages: setting } = await readYaml(tree, pathIn(folder, 'pnpm-workspace.yaml'))
  const lines = (await readText(tree, pathIn(folder, '.npmrc'))).split('\n')
  return (
    setting === true ||
    setting === 'deep' ||
    lines.some((line) => /^link-workspace-packages\s*=\s*(?:true|deep)$/.test(line.trim()))
  )
}

interface Chosen {
  manager: Manager
  /** What decided. */
  by: string
  isNamed: boolean
  lock: Lockfile | undefined
  warnings: string[]
}

/** Chooses the package manager: `packageManager` of the nearest package.json, else the nearest lockfile's, else npm. */
async function choosePackageManager(tree: Tree, root: string, canFetch: boolean): Promise<Chosen> {
  const warnings: string[] = []
  let named: { value: string; path: string } | undefined
  for (const folder of upwards(root)) {
    const value = (await readPackage(tree, folder))?.packageManager
    if (value !== undefined) named ??= { value, path: pathIn(folder, 'package.json') }
  }
  const read = named && readWanted(named.value)
  if (typeof read === 'string') warnings.push(read)
  const wanted = typeof read === 'string' ? undefined : read
  const lock = await findLockfile(tree, root, wanted?.kind)
  warnings.push(...warnOfLockfile(tree, root, lock))
  const kind = wanted?.kind ?? lock?.kind ?? (hasWorkspaceFile(tree, root) ? 'pnpm' : 'npm')
  if (lock !== undefined && pinnedManager(lock.kind).command !== pinnedManager(kind).command)
    warnings.push(
      `${lock.path} is not read by ${pinnedManager(kind).command}, which packageManager in ${named?.path} names: the newest versions that package.json allows are installed.`,
    )
  const version =
    wanted?.version ??
    (lock?.kind === kind
      ? (lock.version ?? (kind === 'pnpm' ? await findPnpmVersion(tree, lock) : undefined))
      : undefined)
  let manager = chooseManager(kind, version)
  if (manager.isFetched && !canFetch) {
    const pinned = pinnedManager(kind)
    warnings.push(
      `The project wants ${kind} ${manager.version}, which cannot be fetched here: ${pinned.version} is used.`,
    )
    manager = { kind, version: pinned.version, isFetched: false }
  }
  const by =
    wanted !== undefined ? `packageManager in ${named?.path}` : (lock?.path ?? 'default, since nothing names one')
  return { manager, by, isNamed: wanted !== undefined, lock, warnings }
}

/** The first sentences of many: a build log has room for a few thousand lines. */
const limited = (sentences: readonly string[]): string[] =>
  sentences.length > WARNINGS_MAX
    ? [...sentences.slice(0, WARNINGS_MAX), `And ${sentences.length - WARNINGS_MAX} more warnings.`]
    : [...sentences]

/** Commands that build a site, and before it what it needs of its workspace. */
async function planCommands(
  tree: Tree,
  site: WorkspacePackage,
  needed: readonly WorkspacePackage[],
  run: (folder: string) => Command,
): Promise<{ builds: Command[]; found: string; environment: Record<string, string>; warnings: string[] }> {
  const { folder: root, manifest } = site
  const path = pathIn(root, 'package.json')
  const { buildCommand } = await readVercel(tree, root)
  const plain = { environment: {}, warnings: [] }
  if (typeof buildCommand === 'string' && buildCommand !== '')
    return {
      ...plain,
      builds: [inShell(buildCommand, root)],
      found: `source, built by buildCommand in ${pathIn(root, 'vercel.json')}`,
    }
  const isBuilt = hasScript(site, 'build')
  const ordered =
    buildCommand === '' ? [] : [...needed.filter((each) => hasScript(each, 'build')), ...(isBuilt ? [site] : [])]
  const found =
    isBuilt && buildCommand !== ''
      ? `source, built by the build script in ${path}`
      : `a server whose packages are installed: ${path} has dependencies and no build script`
  const tool = ordered.length === 0 ? undefined : await findWorkspaceTool(tree, root)
  const name = tool?.name === 'nx' ? await nxNameOf(tree, site) : manifest.name
  if (tool?.isInstalled === true && name !== undefined && PACKAGE_NAME.test(name)) {
    const file = pathIn(tool.folder, tool.file)
    const argv =
      tool.name === 'turbo'
        ? ['turbo', 'run', 'build', `--filter=${name}...`, '--env-mode=loose', '--output-logs=full']
        : ['nx', 'run', `${name}:build`]
    return {
      builds: [{ argv, folder: tool.folder, shown: argv.join(' ') }],
      found: `source in a workspace, built by ${tool.name} for ${file}`,
      environment:
        tool.name === 'turbo'
          ? { TURBO_DANGEROUSLY_DISABLE_PACKAGE_MANAGER_CHECK: 'true', TURBO_TELEMETRY_DISABLED: '1' }
          : { NX_DAEMON: 'false', NX_NO_CLOUD: 'true', NX_TUI: 'false' },
      warnings: [],
    }
  }
  const warnings =
    tool === undefined
      ? []
      : [
          tool.isInstalled
            ? `${path} has no name that npm allows, so ${tool.name} is not asked to build it: the packages that it needs are built in order.`
            : `${pathIn(tool.folder, tool.file)} is there, and ${pathIn(tool.folder, 'package.json')} does not have ${tool.name} among its dependencies: the packages that the site needs are built in order.`,
        ]
  return { ...plain, builds: ordered.map(({ folder }) => run(folder)), found, warnings }
}

async function nxNameOf(tree: Tree, { folder, manifest }: WorkspacePackage): Promise<string | undefined> {
  const path = pathIn(folder, 'project.json')
  const project = tree.files.has(path) ? await readJson(tree, path, projectJson) : {}
  return project.name ?? manifest.name
}

/**
 * Plans how to install and build a project. `packageManager` chooses the package manager, else the nearest lockfile does.
 * vercel.json gives the commands; without it the packages of the workspace that the site needs are built, and then the site.
 *
 * root: below the archive, without slashes at its ends. canFetch: other versions of the package manager can be fetched from a
 * registry.
 * Throws UnusableOutput if a manifest cannot be read, or the project needs a newer Node.
 */
export async function planBuild(
  tree: Tree,
  root: string,
  { nodeVersion = process.versions.node, canFetch }: { nodeVersion?: string; canFetch: boolean },
): Promise<BuildPlan> {
  const manifest = (await readPackage(tree, root)) ?? {}
  const site: WorkspacePackage = { folder: root, manifest }
  const node = await checkNodeVersion(tree, root, nodeVersion)
  const settings = await readVercel(tree, root)
  const { manager, by, isNamed, lock, warnings: managerWarnings } = await choosePackageManager(tree, root, canFetch)
  const { kind } = manager
  const { command } = pinnedManager(kind)
  const call = (args: string[], folder: string, where = ''): Command => ({
    argv: [command, ...args],
    folder,
    shown: [command, ...args].join(' ') + where,
  })

  const workspace = await findWorkspace(tree, root, kind)
  // A lockfile above that knows nothing of the site installs nothing for it.
  const isForeign =
    lock !== undefined &&
    lock.folder !== root &&
    workspace?.packages.has(root) !== true &&
    (hasDependencies(manifest) || manifest.devDependencies !== undefined)
  // A manager cannot use another manager's lockfile.
  const isLocked = lock?.kind === kind && !isForeign && (manager.isFetched || !lock.isOlder)
  const folder = isForeign ? root : (lock?.folder ?? workspace?.folder ?? root)
  const { installCommand, outputDirectory } = settings
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
  const fetch: Command | undefined = manager.isFetched
    ? { argv: fetchCommandOf(manager), folder, shown: `npm install ${command}@${manager.version}` }
    : undefined

  const needs = await findNeeds(tree, site, workspace, await linksByVersion(tree, workspace?.folder ?? '', manager))
  const commands = await planCommands(tree, site, needs.packages, (each) =>
    call(['run', 'build'], each, each === root ? '' : ` (${each})`),
  )
  const path = pathIn(root, 'package.json')
  const warnings = [
    ...Object.entries(manifest.scripts ?? {}).flatMap(([name, script]) =>
      typeof script === 'string'
        ? []
        : [`${path}: scripts: ${JSON.stringify(name.slice(0, 100))} is no text, and is left out.`],
    ),
    ...managerWarnings,
    ...(isForeign
      ? [
          `${lock.path} is not the site's, since no workspace lists ${root}: the newest versions that ${path} allows are installed.`,
        ]
      : []),
    ...(workspace?.warnings ?? []),
    ...needs.warnings,
    ...commands.warnings,
  ]

  const key = createHash('sha256')
  const add = (part: string | Buffer): void => void key.update(`${part.length}\n`).update(part)
  add(`${kind}@${manager.version.split('.', 1)[0]} node@${major(nodeVersion)} ${folder}`)
  add(lock?.content ?? '')
  for (const each of new Set([folder, root])) {
    const own = await readPackage(tree, each)
    add(JSON.stringify(INSTALLED_BY.map((name) => own?.[name] ?? null)))
  }
  return {
    root,
    manager,
    managerBy: by,
    fetch,
    install,
    reinstall,
    builds: commands.builds,
    needed: needs.packages.map((each) => each.folder),
    lockfile: isLocked && typeof installCommand !== 'string' ? lock.path : undefined,
    usesNext: dependsOn(manifest, 'next'),
    outputDirectory: typeof outputDirectory === 'string' && outputDirectory !== '' ? outputDirectory : undefined,
    cacheKey: key.digest('hex'),
    environment: { ...(await environmentOf(manager, isNamed, tree, folder)), ...commands.environment },
    notes: [
      { type: 'INFO', text: `Found ${commands.found}` },
      { type: 'INFO', text: `Package manager: ${command} ${manager.version}, by ${by}` },
      { type: node.isOther ? 'WARN' : 'INFO', text: node.note },
      ...limited(warnings).map((text) => ({ type: 'WARN' as const, text: printable(text) })),
    ],
    caveat: node.caveat,
  }
}
