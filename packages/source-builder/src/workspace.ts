import { posix } from 'node:path'
import type { Tree } from '@platform/build-output/read-output'
import { satisfies, valid, validRange } from 'semver'
import { dependsOn, type PackageJson, pathIn, readPackage, readYaml, upwards } from './manifests.ts'
import type { ManagerKind } from './package-managers.ts'
import { compileGlob } from './workspace-globs.ts'

const PATTERNS_MAX = 100
const PACKAGES_MAX = 5_000
const SHOWN_MAX = 100
const NEEDED_BY = ['dependencies', 'optionalDependencies', 'devDependencies', 'peerDependencies'] as const

export interface WorkspacePackage {
  /** Below the archive. */
  folder: string
  manifest: PackageJson
}

/** Packages that one lockfile installs. */
export interface Workspace {
  /** Its root, below the archive. */
  folder: string
  /** The file and member that list its packages. */
  listedBy: string
  /** Its packages by folder, its root among them. */
  packages: ReadonlyMap<string, WorkspacePackage>
  /** Sentences on patterns that lead nowhere. */
  warnings: string[]
}

/** What a site needs of its workspace. */
export interface Needs {
  /** Packages, each behind those that it needs itself. */
  packages: WorkspacePackage[]
  /** Sentences on dependencies that are not there, and on circles. */
  warnings: string[]
}

const quoted = (value: string): string => JSON.stringify(value.slice(0, SHOWN_MAX))
export const hasScript = ({ manifest }: WorkspacePackage, name: string): boolean =>
  typeof manifest.scripts?.[name] === 'string'

/** Patterns of packages in a folder's manifests; undefined if it is not the root of a workspace. */
async function readPatterns(
  tree: Tree,
  folder: string,
  kind: ManagerKind,
): Promise<{ listedBy: string; patterns: unknown } | undefined> {
  if (kind === 'pnpm') {
    const path = pathIn(folder, 'pnpm-workspace.yaml')
    if (!tree.files.has(path)) return undefined
    const { packages } = await readYaml(tree, path)
    return packages === undefined ? undefined : { listedBy: `${path}: packages`, patterns: packages }
  }
  const workspaces = (await readPackage(tree, folder))?.['workspaces']
  if (workspaces === undefined) return undefined
  const hasMember = typeof workspaces === 'object' && workspaces !== null && 'packages' in workspaces
  return {
    listedBy: `${pathIn(folder, 'package.json')}: workspaces`,
    patterns: hasMember ? workspaces.packages : workspaces,
  }
}

/** Folders below the archive that hold a package, those of installed packages apart. */
function packageFolders(tree: Tree, below: string): string[] {
  const before = below === '' ? '' : `${below}/`
  const folders: string[] = []
  for (const path of tree.files.keys())
    if (path.endsWith('/package.json') && path.startsWith(before) && !/(?:^|\/)node_modules\//.test(path))
      folders.push(path.slice(0, -'/package.json'.length))
  return folders
}

/** Finds the workspace whose root is the nearest one above a site's folder, or that folder itself. Throws UnusableOutput. */
export async function findWorkspace(tree: Tree, root: string, kind: ManagerKind): Promise<Workspace | undefined> {
  for (const folder of upwards(root)) {
    const read = await readPatterns(tree, folder, kind)
    if (read) return readWorkspace(tree, folder, root, read)
  }
  return undefined
}

async function readWorkspace(
  tree: Tree,
  folder: string,
  root: string,
  { listedBy, patterns }: { listedBy: string; patterns: unknown },
): Promise<Workspace> {
  const warnings: string[] = []
  const written = Array.isArray(patterns) ? patterns : []
  if (!Array.isArray(patterns) || written.length > PATTERNS_MAX)
    warnings.push(`${listedBy} is not a list of at most ${PATTERNS_MAX} patterns.`)
  const candidates = packageFolders(tree, folder)
  const nameOf = (each: string): string => (folder === '' ? each : each.slice(folder.length + 1))
  let chosen = new Set<string>()
  for (const each of written.slice(0, PATTERNS_MAX)) {
    if (typeof each !== 'string') {
      warnings.push(`${listedBy}: ${quoted(JSON.stringify(each))} is no text.`)
      continue
    }
    const isExcluding = each.startsWith('!')
    const pattern = posix.normalize(isExcluding ? each.slice(1) : each)
    if (pattern.startsWith('/') || /^\.\.(?:\/|$)/.test(pattern)) {
      warnings.push(`${listedBy}: ${quoted(each)} leads out of the archive, and is left out.`)
      continue
    }
    const glob = compileGlob(pattern)
    if (glob === undefined) {
      warnings.push(`${listedBy}: ${quoted(each)} is a pattern that is not read here: write folders, * and **.`)
      continue
    }
    const matching = candidates.filter((candidate) => glob.test(nameOf(candidate)))
    if (isExcluding) chosen = chosen.difference(new Set(matching))
    else if (matching.length === 0 && pattern !== '.' && pattern !== './')
      warnings.push(`${listedBy}: ${quoted(each)} names no folder with a package.json.`)
    else chosen = chosen.union(new Set(matching))
  }
  if (root !== folder && !chosen.has(root))
    warnings.push(
      `${listedBy} does not list ${quoted(nameOf(root))}, so its packages are not installed with the others.`,
    )
  const packages = new Map<string, WorkspacePackage>()
  const folders = [folder, ...[...chosen].sort()]
  if (folders.length > PACKAGES_MAX)
    warnings.push(`${listedBy} names more than ${PACKAGES_MAX} packages: the first are read.`)
  for (const each of folders.slice(0, PACKAGES_MAX)) {
    const manifest = await readPackage(tree, each)
    if (manifest !== undefined) packages.set(each, { folder: each, manifest })
  }
  return { folder, listedBy, packages, warnings }
}

/** Whether a manager links a package of the workspace for a dependency, instead of one from the registry. */
function isLinked(kind: ManagerKind, wanted: string, { manifest }: WorkspacePackage): boolean {
  if (wanted.startsWith('workspace:')) return true
  if (kind === 'pnpm') return false
  if (wanted === '*' || wanted === '') return true
  const version = valid(manifest.version ?? '')
  return version !== null && validRange(wanted) !== null && satisfies(version, wanted, { includePrerelease: true })
}

/**
 * The packages of its workspace that a site needs, its own dependencies' too, in the order in which they are built. workspace
 * undefined: there is none, and folders can be named by `file:` and `link:` alone.
 */
export async function findNeeds(
  tree: Tree,
  site: WorkspacePackage,
  workspace: Workspace | undefined,
  kind: ManagerKind,
): Promise<Needs> {
  const byName = new Map<string, WorkspacePackage>()
  for (const each of workspace?.packages.values() ?? [])
    if (each.manifest.name !== undefined) byName.set(each.manifest.name, each)
  const warnings: string[] = []
  const done = new Map<string, WorkspacePackage>()
  /** Folders whose own needs are being looked up, in that order. */
  const open: WorkspacePackage[] = []

  async function find(
    name: string,
    wanted: string,
    by: WorkspacePackage,
    member: string,
  ): Promise<WorkspacePackage | undefined> {
    const where = `${pathIn(by.folder, 'package.json')}: ${member}: ${quoted(name)}`
    const path = /^(?:file|link|portal):(?!.*\.(?:tgz|tar\.gz)$)(.*)$/.exec(wanted)?.[1]
    if (path !== undefined) {
      const folder = posix.normalize(pathIn(by.folder, path)).replace(/\/$/, '')
      if (path.startsWith('/') || /^\.\.(?:\/|$)/.test(folder)) {
        warnings.push(`${where} leads out of the archive.`)
        return undefined
      }
      const manifest = await readPackage(tree, folder === '.' ? '' : folder)
      return manifest && { folder: folder === '.' ? '' : folder, manifest }
    }
    const found = byName.get(name)
    if (found === undefined && wanted.startsWith('workspace:')) {
      const lacking = workspace === undefined ? 'and the archive has no workspace' : 'which has no such package'
      warnings.push(
        `${where} is wanted from the workspace, ${lacking}. Upload the whole workspace, and set rootDirectory to the folder of the site.`,
      )
    }
    return found !== undefined && isLinked(kind, wanted, found) ? found : undefined
  }

  async function visit(each: WorkspacePackage): Promise<void> {
    open.push(each)
    const names = new Set<string>()
    for (const member of NEEDED_BY)
      for (const [name, wanted] of Object.entries(each.manifest[member] ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))) {
        if (names.has(name) || typeof wanted !== 'string') continue
        names.add(name)
        const needed = await find(name, wanted, each, member)
        if (needed === undefined || done.has(needed.folder)) continue
        const from = open.findIndex(({ folder }) => folder === needed.folder)
        if (from === -1) await visit(needed)
        else if (from < open.length - 1) warnings.push(circleSentence(open.slice(from), member))
      }
    open.pop()
    done.set(each.folder, each)
  }
  await visit(site)
  done.delete(site.folder)
  return { packages: [...done.values()], warnings: [...new Set(warnings)] }
}

function circleSentence(circle: readonly WorkspacePackage[], member: string): string {
  const names = circle.map(({ folder }) => quoted(folder))
  const last = pathIn(circle.at(-1)?.folder ?? '', 'package.json')
  return `${last}: ${member}: ${[...names, names[0]].join(' needs ')}, in a circle: the last of them is built first, without the first.`
}

/** A tool that builds a workspace's packages in the order of its own configuration. */
export interface WorkspaceTool {
  name: 'turbo' | 'nx'
  /** Below the archive; holds `file`. */
  folder: string
  file: string
}

const TOOLS: readonly Pick<WorkspaceTool, 'name' | 'file'>[] = [
  { name: 'turbo', file: 'turbo.json' },
  { name: 'turbo', file: 'turbo.jsonc' },
  { name: 'nx', file: 'nx.json' },
]

/** The tool that is configured above a site, and whether the package there names it, so that it is installed. */
export async function findWorkspaceTool(
  tree: Tree,
  root: string,
): Promise<(WorkspaceTool & { isInstalled: boolean }) | undefined> {
  for (const folder of upwards(root)) {
    const tool = folder === root ? undefined : TOOLS.find(({ file }) => tree.files.has(pathIn(folder, file)))
    if (tool === undefined) continue
    const manifest = await readPackage(tree, folder)
    return { ...tool, folder, isInstalled: manifest !== undefined && dependsOn(manifest, tool.name) }
  }
  return undefined
}
