import { posix } from 'node:path'
import { type Tree, UnusableOutput } from '@platform/build-output/read-output'
import { satisfies, valid, validRange } from 'semver'
import { dependsOn, type PackageJson, pathIn, readPackage, readYaml, upwards } from './manifests.ts'
import type { ManagerKind } from './package-managers.ts'
import { compileGlob } from './workspace-globs.ts'

const PATTERNS_MAX = 100
const PACKAGES_MAX = 5_000
/** Folders that are compared with patterns, in all. */
const COMPARED_MAX = 500_000
/** Of a package.json that is not the site's, and of all of them. */
const MANIFEST_BYTES_MAX = 1_048_576
const MANIFESTS_BYTES_MAX = 16 * MANIFEST_BYTES_MAX
const SHOWN_MAX = 100
const CIRCLE_SHOWN_MAX = 10
const PATH_MAX = 2_048
/** Circles that are named: a workspace in which each package needs each other has as many as pairs. */
const CIRCLES_MAX = 20
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
  const chosen = new Set<string>()
  let compared = 0
  for (const each of written.slice(0, PATTERNS_MAX)) {
    if (typeof each !== 'string') {
      warnings.push(`${listedBy}: ${quoted(String(each))} is no text.`)
      continue
    }
    const isExcluding = each.startsWith('!')
    const pattern = posix.normalize(isExcluding ? each.slice(1) : each)
    if (pattern.startsWith('/') || /^\.\.(?:\/|$)/.test(pattern)) {
      warnings.push(`${listedBy}: ${quoted(each)} leads out of the archive, and is left out.`)
      continue
    }
    const isListed = compileGlob(pattern)
    if (isListed === undefined) {
      warnings.push(`${listedBy}: ${quoted(each)} is a pattern that is not read here: write folders, * and **.`)
      continue
    }
    compared += candidates.length
    if (compared > COMPARED_MAX) {
      warnings.push(`${listedBy}: ${quoted(each)} and what follows is left out: the archive has too many packages.`)
      break
    }
    const matching = candidates.filter((candidate) => isListed(nameOf(candidate)))
    if (matching.length === 0 && !isExcluding && pattern !== '.' && pattern !== './')
      warnings.push(`${listedBy}: ${quoted(each)} names no folder with a package.json.`)
    for (const found of matching)
      if (isExcluding) chosen.delete(found)
      else chosen.add(found)
  }
  if (root !== folder && !chosen.has(root))
    warnings.push(
      `${listedBy} does not list ${quoted(nameOf(root))}, so its packages are not installed with the others.`,
    )
  const packages = new Map<string, WorkspacePackage>()
  const folders = [folder, ...[...chosen].sort()]
  if (folders.length > PACKAGES_MAX)
    warnings.push(`${listedBy} names more than ${PACKAGES_MAX} packages: the first are read.`)
  const reader = openManifestReader(tree, warnings)
  for (const each of folders.slice(0, PACKAGES_MAX)) {
    const manifest = await reader.read(each)
    if (manifest !== undefined) packages.set(each, { folder: each, manifest })
  }
  return { folder, listedBy, packages, warnings }
}

/** Reads manifests of packages that need not be the site's: one that cannot be read is left out, with a sentence. */
function openManifestReader(tree: Tree, warnings: string[]) {
  let bytes = 0
  return {
    async read(folder: string): Promise<PackageJson | undefined> {
      const path = pathIn(folder, 'package.json')
      const length = tree.files.get(path)?.bytes ?? 0
      bytes += length
      if (length > MANIFEST_BYTES_MAX || bytes > MANIFESTS_BYTES_MAX) {
        warnings.push(
          `${path} is left out: it is larger than ${MANIFEST_BYTES_MAX / 1_048_576} MiB, or all of them are than ${MANIFESTS_BYTES_MAX / 1_048_576} MiB.`,
        )
        return undefined
      }
      try {
        return await readPackage(tree, folder)
      } catch (error) {
        if (!(error instanceof UnusableOutput)) throw error
        warnings.push(`${error.message.replace(/\.$/, '')}, and is left out.`)
        return undefined
      }
    },
  }
}

/** Whether a manager links a package of the workspace for a range of versions, instead of one from the registry. */
function isLinked(range: string, { manifest }: WorkspacePackage): boolean {
  if (range === '*' || range === '') return true
  const version = valid(manifest.version ?? '')
  return version !== null && validRange(range) !== null && satisfies(version, range, { includePrerelease: true })
}

/** What a dependency on the workspace's own names: a package, or a folder. */
function readWorkspaceSpec(name: string, wanted: string): { name: string } | { path: string } {
  const spec = wanted.slice('workspace:'.length)
  if (/^\.{0,2}\//.test(spec)) return { path: spec }
  return { name: /^((?:@[^@/]+\/)?[^@/]+)@/.exec(spec)?.[1] ?? name }
}

/**
 * Finds the packages of its workspace that a site needs, directly or through others, in the order in which they are built.
 * workspace undefined: only `file:` and `link:` can name a folder. linksByVersion: the manager also links a package that is not
 * marked `workspace:`, if its version fits.
 */
export async function findNeeds(
  tree: Tree,
  site: WorkspacePackage,
  workspace: Workspace | undefined,
  linksByVersion: boolean,
): Promise<Needs> {
  const byName = new Map<string, WorkspacePackage>()
  for (const each of workspace?.packages.values() ?? [])
    if (each.manifest.name !== undefined) byName.set(each.manifest.name, each)
  const warnings: string[] = []
  const reader = openManifestReader(tree, warnings)
  const done = new Map<string, WorkspacePackage>()
  let circles = 0
  /** Folders whose own needs are being looked up, in that order. */
  const open: WorkspacePackage[] = []

  async function find(
    name: string,
    wanted: string,
    by: WorkspacePackage,
    member: string,
  ): Promise<WorkspacePackage | undefined> {
    const where = `${pathIn(by.folder, 'package.json')}: ${member}: ${quoted(name)}`
    const spec = wanted.startsWith('workspace:') ? readWorkspaceSpec(name, wanted) : undefined
    const path =
      spec === undefined
        ? /^(?:file|link|portal):(?!.*\.(?:tgz|tar\.gz)$)(.*)$/s.exec(wanted.slice(0, PATH_MAX))?.[1]
        : 'path' in spec
          ? spec.path
          : undefined
    if (path !== undefined) {
      const folder = posix.normalize(pathIn(by.folder, path)).replace(/\/$/, '').replace(/^\.$/, '')
      if (path.startsWith('/') || /^\.\.(?:\/|$)/.test(folder)) {
        warnings.push(`${where} leads out of the archive.`)
        return undefined
      }
      const manifest = workspace?.packages.get(folder)?.manifest ?? (await reader.read(folder))
      return manifest && { folder, manifest }
    }
    const found = byName.get(spec !== undefined && 'name' in spec ? spec.name : name)
    if (spec === undefined) return linksByVersion && found !== undefined && isLinked(wanted, found) ? found : undefined
    if (found === undefined) {
      const lacking = workspace === undefined ? 'and the archive has no workspace' : 'which has no such package'
      warnings.push(
        `${where} is wanted from the workspace, ${lacking}. Upload the whole workspace, and set rootDirectory to the folder of the site.`,
      )
    }
    return found
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
        else if (from < open.length - 1 && circles++ < CIRCLES_MAX)
          warnings.push(circleSentence(open.slice(from), member))
      }
    open.pop()
    done.set(each.folder, each)
  }
  await visit(site)
  done.delete(site.folder)
  return { packages: [...done.values()], warnings: [...new Set(warnings)] }
}

function circleSentence(circle: readonly WorkspacePackage[], member: string): string {
  const shown = circle.slice(0, CIRCLE_SHOWN_MAX).map(({ folder }) => quoted(folder))
  const names = circle.length > CIRCLE_SHOWN_MAX ? [...shown, '…'] : shown
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
