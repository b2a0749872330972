import { createHash } from 'node:crypto'
import { createReadStream, lstatSync, realpathSync } from 'node:fs'
import { lstat, readdir, readFile, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, posix } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { findServer, type Tree, UnusableOutput, WORKERS } from '@platform/build-output/read-output'
import { isForPages, type StartScript } from '@platform/build-output/start-script'
import { Warnings } from '@platform/build-output/warnings'
import { explainLeftOut, explainNothing, findMadeServers, type Made } from './made-files.ts'
import { pathIn, readPackage, upwards } from './manifests.ts'
import { warnOfSimilarNames } from './similar-names.ts'
import { findTraced, type TracedPlace } from './traced-files.ts'

/** The result of a build, readable like an archive. */
export interface BuiltProject extends Tree {
  /** The root of the output: '' or a folder below the project. */
  root: string
  /** For a Node server: links below the project by path, with their targets as written. They stay links. */
  links: ReadonlyMap<string, string>
  /** A sentence: what was taken, and by which rule. */
  note: string
  /** Sentences about omitted files, and about what else the build made. */
  warnings: string[]
  /** Files of the build that look like servers, below the site. */
  madeServers: string[]
  /** Returns a file of `files` with the SHA-256 of its content. */
  content(path: string): Promise<BuiltFile & { sha256: Buffer }>
}

interface BuiltFile {
  bytes: number
  /** Absolute; no part of it is a link. */
  source: string
  isExecutable: boolean
  /** In milliseconds since 1970. */
  changedAt: number
}

export interface BuiltProjectOptions {
  /** Absolute. Nothing writes to it any more. */
  folder: string
  /** The folder of the package.json that was built, below the project. */
  root: string
  /** Folders of the packages of its workspace that the site needs. */
  needed?: readonly string[]
  /** From vercel.json. */
  outputDirectory: string | undefined
  /** Whether the archive contained a path. Files that it did not contain, or that changed since, come from the build. */
  isSource(path: string): boolean
  /** In milliseconds since 1970. */
  builtSince: number
  bytesMax: number
  /** Limit of files and links that are deployed. Default: 50,000. */
  entriesMax?: number
  /**
   * Lists what a module of a server reaches, if the server as a whole is over a limit. entry and paths: below the project. Returns
   * undefined if that cannot be told; if it is absent, such a server is refused.
   */
  trace?: (entry: string) => Promise<readonly string[] | undefined>
}

const MIB = 1_048_576
const FILE_BYTES_MAX = 256 * MIB
const ENTRIES_MAX = 50_000
/** Entries that may be scanned to find the output, besides node_modules. */
const LOOKED_THROUGH_MAX = 200_000
const DEPTH_MAX = 64
/** The limit of archives. Two such paths and the folder in front of them fit into the system's limit. */
const PATH_BYTES_MAX = 2_048
/** Total length of all paths, since each is kept in memory. */
const PATHS_LENGTH_MAX = 32 * MIB
/** Caches between builds, which are never served. */
const LEFT_OUT = /(?:^|\/)(?:\.git|node_modules\/\.cache|\.next\/cache|\.yarn\/cache|\.turbo)$/
/** Intermediate files of frameworks: they include pages, but are not a site. */
const INTERMEDIATE = /(?:^|\/)\.(?:next|nuxt|svelte-kit)\//
const OUTPUT = '.vercel/output'
const PAGES_SHOWN = 3

const shown = (path: string): string => JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path)

/** More than may be deployed. amount: the limit with its unit. */
class OverLimit extends UnusableOutput {
  constructor(amount: string) {
    super(`The build left more than ${amount} to deploy`)
  }
}
const tooMuch = (): UnusableOutput =>
  new UnusableOutput(
    `The build left too much to look through: ${LOOKED_THROUGH_MAX} files, folders and links beside node_modules, and paths of ${PATHS_LENGTH_MAX / MIB} MiB together, are allowed`,
  )

function requireCount(entries: number, entriesMax = ENTRIES_MAX): void {
  if (entries > entriesMax) throw new OverLimit(`${entriesMax} files`)
}

function requireName(path: string): void {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f\\]/.test(path) || !path.isWellFormed())
    throw new UnusableOutput(
      `The build made ${shown(path)}, a name with a backslash or a character that is not printed`,
    )
  // Invalid UTF-8 in a name is replaced by this character.
  if (path.includes('\ufffd')) throw new UnusableOutput(`The build made ${shown(path)}, a name that is not UTF-8`)
  if (Buffer.byteLength(path) > PATH_BYTES_MAX)
    throw new UnusableOutput(`The build made ${shown(path)}, a path of more than ${PATH_BYTES_MAX} bytes`)
  if (path.split('/').length > DEPTH_MAX)
    throw new UnusableOutput(`The build made ${shown(path)}, more than ${DEPTH_MAX} folders deep`)
}

/** Limits the entries scanned, so that no build can make the platform scan, or keep paths, without end. */
function openBudget(): { spend(path: string): void } {
  let entries = 0
  let length = 0
  return {
    spend(path) {
      entries++
      length += path.length
      if (entries > LOOKED_THROUGH_MAX || length > PATHS_LENGTH_MAX) throw tooMuch()
    },
  }
}

interface Link {
  /** As written in the link. */
  target: string
  /** Absolute; no other part of it is a link. */
  source: string
}

interface Scan {
  /** The scanned folder, absolute and with links resolved. */
  start: string
  files: Map<string, BuiltFile>
  links: Map<string, Link>
}

/** The real location of a path below the project. undefined if it does not exist, or lies outside the project. */
async function findReal(folder: string, path: string): Promise<string | undefined> {
  const real = await realpath(join(folder, path)).catch(() => undefined)
  return real === folder || (real !== undefined && isInside(folder, real)) ? real : undefined
}

interface ScanOptions {
  hasModules: boolean
  entriesMax: number
}

/**
 * Scans a folder of the project. below: its path in the project, '' for all of it; links in this path are followed if they
 * stay in the project, all other links are listed.
 */
async function scan(folder: string, below: string, { hasModules, entriesMax }: ScanOptions): Promise<Scan> {
  const start = await findReal(folder, below)
  if (start === undefined) throw new UnusableOutput(`The build left nothing of the project at ${shown(below)}`)
  const files: Scan['files'] = new Map()
  const links: Scan['links'] = new Map()
  const budget = openBudget()
  const waiting = [{ path: below, place: start }]
  for (let waited = waiting.pop(); waited !== undefined; waited = waiting.pop()) {
    const next = waited
    const pathOf = ({ name }: { name: string }): string => pathIn(next.path, name)
    const entries = (await readdir(next.place, { withFileTypes: true })).filter(
      (entry) => (hasModules || entry.name !== 'node_modules') && !LEFT_OUT.test(pathOf(entry)),
    )
    for (const entry of entries) budget.spend(pathOf(entry))
    for (const entry of entries) {
      const path = pathOf(entry)
      requireName(path)
      const source = join(next.place, entry.name)
      if (entry.isDirectory()) waiting.push({ path, place: source })
      else if (entry.isSymbolicLink()) links.set(path, { target: await readlink(source), source })
      else if (entry.isFile()) files.set(path, fileOf(source, await lstat(source)))
      requireCount(files.size + links.size, entriesMax)
    }
  }
  return { start, files, links }
}

const fileOf = (
  source: string,
  { size, mode, mtimeMs }: { size: number; mode: number; mtimeMs: number },
): BuiltFile => ({
  bytes: size,
  source,
  isExecutable: (mode & 0o111) !== 0,
  changedAt: mtimeMs,
})

/** Memoizes a function of a path. */
function remember<T>(ask: (source: string) => Promise<T>): (source: string) => Promise<T> {
  const answers = new Map<string, Promise<T>>()
  return (source) => {
    const known = answers.get(source) ?? ask(source)
    answers.set(source, known)
    return known
  }
}

/** Adds the targets of a folder's links under the links' own paths, as in an uploaded archive. */
async function followLinks(folder: string, { files, links }: Scan, warnings: Warnings): Promise<void> {
  // A few folders that link to each other twice have more paths than could ever be scanned, perhaps without a single file.
  const budget = openBudget()
  // The disk is read once for each link, file and folder, however many paths lead to it.
  const targetOf = remember(async (source) => {
    const real = await realpath(source).catch(() => undefined)
    if (real === undefined) return 'to nothing'
    return isInside(folder, real) ? { real, found: await lstat(real) } : 'out of the project'
  })
  const entriesOf = remember((source) => readdir(source, { withFileTypes: true }))
  const statOf = remember((source) => lstat(source))
  const follow = async (path: string, source: string, open: readonly string[]): Promise<void> => {
    const target = await targetOf(source)
    if (typeof target === 'string') {
      warnings.add(`The link ${shown(path)} leads ${target} and was left out`)
      return
    }
    const { real, found: stats } = target
    if (stats.isFile()) files.set(path, fileOf(real, stats))
    else if (stats.isDirectory() && open.some((each) => isInside(real, each) || each === real))
      warnings.add(`The link ${shown(path)} leads to a folder that holds it and was left out`)
    else if (stats.isDirectory())
      for (const entry of await entriesOf(real))
        await add(pathIn(path, entry.name), join(real, entry.name), entry, [...open, real])
  }
  const add = async (
    path: string,
    source: string,
    entry: { isSymbolicLink(): boolean; isDirectory(): boolean; isFile(): boolean },
    open: readonly string[],
  ): Promise<void> => {
    budget.spend(path)
    requireName(path)
    if (entry.isSymbolicLink()) await follow(path, source, open)
    else if (entry.isFile()) files.set(path, fileOf(source, await statOf(source)))
    else if (entry.isDirectory())
      for (const child of await entriesOf(source))
        await add(pathIn(path, child.name), join(source, child.name), child, open)
    requireCount(files.size)
  }
  for (const [path, { source }] of links) await follow(path, source, [dirname(source)])
}

const isInside = (folder: string, path: string): boolean => path.startsWith(`${folder}/`)

function requireSize(path: string, bytes: number): void {
  if (bytes > FILE_BYTES_MAX)
    throw new UnusableOutput(`The build left ${shown(path)}, which is larger than ${FILE_BYTES_MAX / MIB} MiB`)
}

/**
 * Files by path; a path that is not listed is looked up on the disk, so that a manifest may name any file of the project.
 * Throws UnusableOutput if a file, or all requested files together, are too large.
 */
class ProjectFiles extends Map<string, BuiltFile> {
  readonly #folder: string
  readonly #bytesMax: number
  /** Files found on the disk, by their real location, so that each counts once. */
  readonly #found = new Map<string, BuiltFile>()
  #bytes = 0

  constructor(folder: string, files: Iterable<[string, BuiltFile]>, bytesMax: number) {
    super()
    this.#folder = folder
    this.#bytesMax = bytesMax
    for (const [path, file] of files) this.set(path, file)
  }

  /** Checks the listed files against the limits. */
  requireSizes(): void {
    for (const [path, file] of this) {
      requireSize(path, file.bytes)
      this.#count(file.bytes)
    }
  }

  override get(path: string): BuiltFile | undefined {
    return super.get(path) ?? this.#find(path)
  }

  override has(path: string): boolean {
    return this.get(path) !== undefined
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > this.#bytesMax) throw new OverLimit(`${Math.floor(this.#bytesMax / MIB)} MiB`)
  }

  #find(path: string): BuiltFile | undefined {
    const source = this.#sourceOf(path)
    if (source === undefined) return undefined
    const known = this.#found.get(source)
    if (known) return known
    const stats = lstatSync(source)
    if (!stats.isFile()) return undefined
    requireSize(path, stats.size)
    this.#count(stats.size)
    const file = fileOf(source, stats)
    this.#found.set(source, file)
    return file
  }

  #sourceOf(path: string): string | undefined {
    if (path === '' || path.includes('\0')) return undefined
    try {
      const real = realpathSync(join(this.#folder, path))
      return isInside(this.#folder, real) ? real : undefined
    } catch {
      // Nothing is there, or the name is invalid for the file system.
      return undefined
    }
  }
}

/** What is taken of a build, and by which rule. */
type Choice = { rule: string } & (
  | { kind: 'output' }
  /** program: the module that starts it, below the project; undefined if that is not all that starts it. */
  | { kind: 'server'; program: string | undefined }
  | ({ kind: 'next-server' } & NextOutput)
  /** unstarted: a start script that is not run; undefined if there is none, or if it only shows pages. */
  | { kind: 'folder'; folder: string; others: string[]; unstarted?: StartScript | undefined }
)

/** The standalone output of Next.js. */
interface NextOutput {
  /** The folder of its build, below the site's. */
  distDir: string
  /** The site's folder within the standalone output: '' or a path with a trailing slash. */
  below: string
}

/** Finds the standalone output of a Next.js site, whatever its build folder is called. */
function findNextOutput(files: Scan['files'], root: string): NextOutput | undefined {
  const before = root === '' ? '' : `${root}/`
  for (const path of files.keys()) {
    const [, distDir = '', below = ''] =
      /^(.+?)\/standalone\/(.*\/)?server\.js$/.exec(path.startsWith(before) ? path.slice(before.length) : '') ?? []
    if (distDir !== '' && files.has(`${before}${distDir}/standalone/${below}${distDir}/required-server-files.json`))
      return { distDir, below }
  }
  return undefined
}

/** Folders with a page or worker that the build created, the shallowest first, then by name; none within another. */
function madeFolders(files: Scan['files'], root: string, isMade: (path: string) => boolean): string[] {
  const below = root === '' ? '' : `${root}/`
  const paths = [...files.keys()].flatMap((path) => {
    if (!path.startsWith(below)) return []
    const name = ['index.html', ...WORKERS].find((each) => path.endsWith(`/${each}`))
    if (name === undefined || INTERMEDIATE.test(path) || !isMade(path)) return []
    const folder = path.slice(0, -name.length - 1)
    return folder.length > below.length ? [folder] : []
  })
  const sorted = paths.toSorted((a, b) => a.split('/').length - b.split('/').length || (a < b ? -1 : 1))
  const chosen = new Set<string>()
  for (const path of sorted) if (!upwards(path).some((folder) => chosen.has(folder))) chosen.add(path)
  return [...chosen]
}

/** Flags by which Node loads other modules before the program. */
const PRELOADING = /(?:^|[\s=])(?:-r|--(?:require|import|loader|experimental-loader))(?:[=\s])/

/** Whether a path below the project is a non-empty folder of it. */
async function holdsSomething(folder: string, path: string): Promise<boolean> {
  const real = await findReal(folder, path)
  return real !== undefined && (await readdir(real).catch(() => [])).length > 0
}

/** What the build made, for sentences. */
async function lookThrough(
  tree: Tree,
  { files }: Scan,
  root: string,
  isMade: (path: string) => boolean,
): Promise<Made> {
  const below = root === '' ? '' : `${root}/`
  const paths = [...files.keys()]
    .filter((path) => path.startsWith(below) && isMade(path))
    .map((path) => path.slice(below.length))
  const servers = await findMadeServers(paths, (path) => files.get(below + path)?.source ?? '')
  return { paths, servers, manifest: (await readPackage(tree, root)) ?? {}, root }
}

async function choose(
  tree: Tree,
  scanned: Scan,
  { root, outputDirectory }: BuiltProjectOptions,
  made: Made,
  isMade: (path: string) => boolean,
): Promise<Choice> {
  const has = (name: string): boolean => tree.files.has(pathIn(root, name))
  const placeOf = (path: string): string => (path === '' ? 'the project' : path)
  if (has(`${OUTPUT}/config.json`))
    return { kind: 'output', rule: `Took ${pathIn(root, OUTPUT)}: Build Output comes before all else` }
  const next = findNextOutput(scanned.files, root)
  // People also set it for Next.js, whose build folder is not a site.
  if (outputDirectory !== undefined && posix.normalize(outputDirectory).replace(/\/$/, '') !== next?.distDir) {
    const folder = posix.normalize(pathIn(root, outputDirectory)).replace(/^\.$|\/$/, '')
    const isOutside = folder === '..' || folder.startsWith('../') || folder.startsWith('/')
    if (isOutside || !(await holdsSomething(scanned.start, folder)))
      throw new UnusableOutput(
        `vercel.json names the output directory ${shown(outputDirectory)}, and the build left nothing there`,
      )
    return { kind: 'folder', folder, others: [], rule: `Took ${placeOf(folder)}: the outputDirectory of vercel.json` }
  }
  const server = await findServer(tree, root === '' ? '' : `${root}/`)
  const program = server?.handler ?? server?.script?.file
  const isOwn = next === undefined || program?.startsWith(`${next.distDir}/`) === false
  const pages = madeFolders(scanned.files, root, isMade)
  if (program !== undefined && isOwn)
    return {
      kind: 'server',
      program: PRELOADING.test(server?.script?.command ?? '') ? undefined : posix.join(root, program),
      rule: `Took ${placeOf(root)} as a Node server: what starts it is there${pages.length === 0 ? '' : `; the pages that the build made are left to it: ${pages.slice(0, PAGES_SHOWN).join(', ')}`}`,
    }
  if (next)
    return {
      kind: 'next-server',
      ...next,
      rule: `Took ${pathIn(root, `${next.distDir}/standalone`)}: the server that Next.js made`,
    }
  const [folder, ...others] = pages
  if (folder !== undefined)
    return {
      kind: 'folder',
      folder,
      others,
      unstarted: server?.script && !isForPages(server.script) ? server.script : undefined,
      rule: `Took ${folder}: the folder nearest to the top with a page that the build made`,
    }
  if (server !== undefined)
    return {
      kind: 'server',
      program: undefined,
      rule: `Took ${placeOf(root)} as a Node server: it has a start script, and the build made no page`,
    }
  if (has('index.html') || WORKERS.some(has))
    return {
      kind: 'folder',
      folder: root,
      others: [],
      rule: `Took ${placeOf(root)}: its own index.html, since the build made no other`,
    }
  throw new UnusableOutput(explainNothing(made))
}

/** Links among what is taken: a package of a workspace, or one in a node_modules. */
const PACKAGE_LINK = /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^./@][^/]*$/

/** Links that lead to something that the server has, with their targets as written. taken: its folders, absolute. */
async function keptLinks(
  { links }: Scan,
  folder: string,
  taken: readonly string[],
  warnings: Warnings,
): Promise<Map<string, string>> {
  const kept = new Map<string, string>()
  for (const [path, { target, source }] of links) {
    const real = await realpath(source).catch(() => undefined)
    const isTaken = real !== undefined && taken.some((each) => real === each || isInside(each, real))
    if (isTaken && !target.startsWith('/')) kept.set(path, target)
    // Packages contain many links to programs for other machines; these need no warning, nor do packages that the site does not need.
    else if (
      !path.includes('node_modules/') ||
      (PACKAGE_LINK.test(path) && (real === undefined || !isInside(folder, real)))
    )
      warnings.add(`The link ${shown(path)} leads out of the project or to nothing and was left out`)
  }
  return kept
}

interface ServerFolder {
  found: Scan
  links: Map<string, string>
  /** The folder whose files are the server's: its own, or the project if it shares packages with others. */
  serverFolder: string
}

/** The parts of a Node server: its files, and its links as links. */
async function readServerFolder(
  folder: string,
  below: string,
  warnings: Warnings,
): Promise<Omit<ServerFolder, 'serverFolder'>> {
  const found = await scan(folder, below, { hasModules: true, entriesMax: ENTRIES_MAX })
  return { found, links: await keptLinks(found, found.start, [found.start], warnings) }
}

/** The folders of a server of a workspace, below the project. */
interface ServerFolders {
  /** Its own, and those of the packages that it needs; none is within another. */
  own: string[]
  /** Every node_modules that Node looks into from there, outside of these. */
  shared: string[]
}

async function listServerFolders(folder: string, root: string, needed: readonly string[]): Promise<ServerFolders> {
  const own = [root, ...needed].filter((each, n, all) => !all.some((other, m) => m !== n && isBelow(other, each)))
  const shared = new Set<string>()
  for (const each of own)
    for (const above of upwards(each)) {
      const modules = pathIn(above, 'node_modules')
      if (!own.some((other) => other === above || isBelow(other, above)) && (await holdsSomething(folder, modules)))
        shared.add(modules)
    }
  return { own, shared: [...shared] }
}

interface ServerScan extends Omit<Scan, 'start'> {
  /** The scanned folders, absolute. */
  taken: string[]
}

/** Scans all files of a server. */
async function scanServer(folder: string, { own, shared }: ServerFolders, entriesMax: number): Promise<ServerScan> {
  const all: ServerScan = { files: new Map(), links: new Map(), taken: [] }
  for (const below of [...own, ...shared]) {
    const found = await scan(folder, below, { hasModules: true, entriesMax })
    all.taken.push(found.start)
    for (const [path, file] of found.files) all.files.set(path, file)
    for (const [path, link] of found.links) all.links.set(path, link)
    requireCount(all.files.size + all.links.size, entriesMax)
  }
  return all
}

/** Scans a server's own folders, and takes of every node_modules what a trace names. */
async function scanTracedServer(
  folder: string,
  { own, shared }: ServerFolders,
  entriesMax: number,
  traced: readonly string[],
): Promise<ServerScan & { tracedFiles: number }> {
  const files: Scan['files'] = new Map()
  const links: Scan['links'] = new Map()
  const places: TracedPlace[] = []
  for (const path of own) {
    const found = await scan(folder, path, { hasModules: false, entriesMax })
    places.push({ path, start: found.start })
    for (const [each, file] of found.files) files.set(each, file)
    for (const [each, link] of found.links) links.set(each, link)
    requireCount(files.size + links.size, entriesMax)
  }
  for (const path of shared) {
    const start = await findReal(folder, path)
    if (start !== undefined) places.push({ path, start })
  }
  const before = files.size
  for await (const { path, source, stats } of findTraced(folder, places, traced)) {
    requireName(path)
    if ([...upwards(path)].some((each) => LEFT_OUT.test(each))) continue
    if (stats.isFile()) files.set(path, fileOf(source, stats))
    else links.set(path, { target: await readlink(source), source })
    requireCount(files.size + links.size, entriesMax)
  }
  return { files, links, taken: places.map(({ start }) => start), tracedFiles: files.size - before }
}

/**
 * Reads a server: its own folder, the folders of the packages that it needs, and every node_modules that Node searches from there.
 * Beyond a limit it takes of each node_modules only what the program reaches.
 */
async function readServer(
  folder: string,
  program: string | undefined,
  { root, needed = [], bytesMax, entriesMax = ENTRIES_MAX, trace }: BuiltProjectOptions,
  warnings: Warnings,
): Promise<ServerFolder> {
  const folders = await listServerFolders(folder, root, needed)
  let server: ServerScan
  try {
    server = await scanServer(folder, folders, entriesMax)
    new ProjectFiles(folder, server.files, bytesMax).requireSizes()
  } catch (error) {
    if (!(error instanceof OverLimit) || program === undefined) throw error
    const traced = await trace?.(program)
    if (traced === undefined) throw error
    const reached = await scanTracedServer(folder, folders, entriesMax, traced)
    warnings.add(
      `${error.message}, so node_modules was traced from ${program}: the server gets ${reached.tracedFiles} files of it, and may lack what it loads by names that it computes`,
    )
    server = reached
  }
  const { files, links, taken } = server
  const isAlone = taken.length === 1
  const found: Scan = { start: (isAlone ? taken[0] : undefined) ?? folder, files, links }
  return { found, links: await keptLinks(found, found.start, taken, warnings), serverFolder: isAlone ? root : '' }
}

/** Whether a path below the project is inside a folder of it. */
const isBelow = (folder: string, path: string): boolean =>
  path !== folder && (folder === '' || path.startsWith(`${folder}/`))

/** Assembles the server that Next.js built: its standalone output lacks the files that a file server would serve. */
async function readNextServer(folder: string, root: string, { distDir, below }: NextOutput, warnings: Warnings) {
  const standalone = pathIn(root, `${distDir}/standalone`)
  const { found: scanResult, links } = await readServerFolder(folder, standalone, warnings)
  const inside = (path: string): string => path.slice(standalone.length + 1)
  const files = new Map<string, BuiltFile>()
  for (const name of [`${distDir}/static`, 'public']) {
    if (!(await holdsSomething(folder, pathIn(root, name)))) continue
    const beside = await scan(folder, pathIn(root, name), { hasModules: true, entriesMax: ENTRIES_MAX })
    await followLinks(folder, beside, warnings)
    for (const [path, file] of beside.files) files.set(below + (root === '' ? path : path.slice(root.length + 1)), file)
  }
  // If a build already copied some of them there, its own copies win.
  for (const [path, file] of scanResult.files) files.set(inside(path), file)
  requireCount(files.size + links.size)
  return {
    found: { ...scanResult, files },
    links: new Map([...links].map(([path, target]) => [inside(path), target])),
  }
}

/**
 * Finds the output of a build, in this order: Build Output; the folder that vercel.json names; a Node server (a start script whose
 * program is there, `server.js` or Nitro's); the standalone output of Next.js; the shallowest folder with an index.html or
 * worker that the build created; another start script; an index.html beside package.json.
 * Throws UnusableOutput if there is no output, too much of it, or something that cannot be stored.
 */
export async function readBuiltProject(options: BuiltProjectOptions): Promise<BuiltProject> {
  const { root, bytesMax } = options
  // The folders above are the platform's. This one is the build's, which could replace it by a link to any folder of the
  // machine.
  const folder = join(await realpath(dirname(options.folder)), basename(options.folder))
  const own = await lstat(folder).catch(() => undefined)
  if (own?.isDirectory() !== true) throw new UnusableOutput('The build removed the folder of its project')
  const warnings = new Warnings()
  const read = async (path: string): Promise<Buffer> => {
    const file = files.get(path)
    if (!file) throw new Error(`The build left no file ${shown(path)}`)
    return readFile(file.source)
  }
  const source = await scan(folder, '', { hasModules: false, entriesMax: LOOKED_THROUGH_MAX })
  let files = new ProjectFiles(folder, source.files, bytesMax)
  const isMade = (path: string): boolean =>
    !options.isSource(path) || (source.files.get(path)?.changedAt ?? 0) >= options.builtSince
  const made = await lookThrough({ files, read }, source, root, isMade)
  const choice = await choose({ files, read }, source, options, made, isMade)

  let scanResult: Scan
  let links: ReadonlyMap<string, string> = new Map()
  let serverFolder: string | undefined
  if (choice.kind === 'server') {
    ;({ found: scanResult, links, serverFolder } = await readServer(folder, choice.program, options, warnings))
  } else if (choice.kind === 'next-server') {
    ;({ found: scanResult, links } = await readNextServer(folder, root, choice, warnings))
  } else {
    const below = choice.kind === 'output' ? pathIn(root, OUTPUT) : choice.folder
    // If the project itself is the site, exclude the packages that were installed for its build.
    const hasModules = choice.kind === 'output' || below !== root
    scanResult = await scan(folder, below, { hasModules, entriesMax: ENTRIES_MAX })
    await followLinks(folder, scanResult, warnings)
    if (choice.kind === 'folder' && options.outputDirectory === undefined)
      for (const sentence of explainLeftOut(made, choice)) warnings.add(sentence)
  }
  // readNextServer has moved the files, so their paths start at the standalone folder instead of the project.
  files = new ProjectFiles(choice.kind === 'next-server' ? scanResult.start : folder, scanResult.files, bytesMax)
  files.requireSizes()
  warnOfSimilarNames([...files.keys()].toSorted(), choice.kind === 'folder' ? choice.folder : '', warnings, shown)
  const digests = new Map<string, Promise<Buffer>>()
  return {
    files,
    read,
    root: choice.kind === 'folder' ? choice.folder : choice.kind === 'next-server' ? '' : root,
    links,
    ...(serverFolder !== undefined && { serverFolder: serverFolder === '' ? '' : `${serverFolder}/` }),
    note: choice.rule,
    madeServers: made.servers.filter(({ listens }) => listens).map(({ path }) => path),
    ...(choice.kind === 'next-server' && { nextServer: { below: choice.below, distDir: choice.distDir } }),
    warnings: warnings.list(),
    async content(path) {
      const file = files.get(path)
      if (!file) throw new Error(`The build left no file ${shown(path)}`)
      let digest = digests.get(file.source)
      if (!digest) digests.set(file.source, (digest = hashFile(file.source)))
      return { ...file, sha256: await digest }
    },
  }
}

async function hashFile(path: string): Promise<Buffer> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest()
}
