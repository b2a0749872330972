import { IGNORE_FILES, IgnoreRules } from './ignore-rules.ts'
import {
  archiveBytesMax,
  checkLimits,
  mebibytes,
  type PackLimits,
  RATIO_FREE_BYTES,
  RATIO_MAX,
  type TooLarge,
  ZIP_BYTES_MAX,
} from './limits.ts'
import { findSecret, isSecretName } from './secrets.ts'
import { findPrefix, findShape, type FolderView, type Shape } from './shape.ts'
import {
  folderOf,
  nameOf,
  type PackEntry,
  type PackFile,
  type PackLink,
  type PackSource,
  pathIn,
  readText,
} from './source.ts'
import { isOverRatio, type Packable, zipChunks } from './zip.ts'

export interface PackOptions {
  /** Paths to pack that would be left out. One that is not there is an error. */
  include?: readonly string[] | undefined
  /** Packs `.vercel/output` and what its Functions name, whatever `.gitignore` says, and nothing else. */
  prebuilt?: boolean | undefined
  /** Where the site is below the folder: the deployment's, or else its application's. */
  rootDirectory?: string | undefined
  limits?: PackLimits | undefined
  signal?: AbortSignal | undefined
}

/** Something that is not packed. why: such as `holds a private key`. A folder stands for all that is in it. */
export interface LeftOut {
  path: string
  why: string
}

/** What `zip` packs. Paths are those of the folder; in the archive they stand behind `prefix`. */
export interface PackPlan extends Packable {
  /** Of all files, before they are packed. */
  bytes: number
  left: LeftOut[]
  /** Files that are larger than one may be; `refusals` has a sentence for each, and for every other limit. */
  tooLarge: TooLarge[]
}

/**
 * How a folder is walked. filtered: by the rules of its ignore files. whole: without. installed: it is below packages, whose own
 * `node_modules` share their fate. dropped: for what `include` names alone.
 */
type Walk = 'filtered' | 'whole' | 'installed' | 'dropped'

const MODULES = 'node_modules'
const OUTPUT = '.vercel/output'
const LINKS_FOLLOWED_MAX = 40

const WHY_NO_MODULES: Record<Exclude<Shape, 'server'>, string> = {
  source: 'is installed by the platform',
  'build-output': 'is packed as far as a filePathMap names it',
  worker: 'is not served',
  pages: 'is not served',
}

/** Resolves a path against a folder; undefined if it leads out of the top. */
function resolvePath(path: string, folder: string): string | undefined {
  if (/^(?:\/|[A-Za-z]:)|\\|\0/.test(path)) return undefined
  const segments = folder === '' ? [] : folder.split('/')
  for (const segment of path.split('/'))
    if (segment === '..') {
      if (segments.pop() === undefined) return undefined
    } else if (segment !== '' && segment !== '.') segments.push(segment)
  return segments.join('/')
}

/** A folder and those above it, up to the top. */
const upwards = (folder: string): string[] => (folder === '' ? [''] : [folder, ...upwards(folderOf(folder))])

/** Text that sorts as its bytes in UTF-8 do. */
const bytesOf = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- ASCII is its own bytes
  /^[\0-\x7f]*$/.test(text) ? text : String.fromCharCode(...new TextEncoder().encode(text))

/** Looks through a folder and collects what is packed, and what is not. */
class Planner {
  readonly files = new Map<string, PackFile | PackLink>()
  readonly left = new Map<string, string>()
  readonly refusals: string[] = []
  /** `node_modules`, whose fate depends on all other files. */
  readonly modules = new Map<string, PackEntry>()
  readonly #rules = new IgnoreRules()
  readonly #listed = new Map<string, Map<string, PackEntry>>()
  readonly #source: PackSource
  readonly #included: Map<string, { isFound: boolean }>
  readonly #signal: AbortSignal | undefined

  constructor(source: PackSource, { include = [], signal }: PackOptions) {
    this.#source = source
    this.#signal = signal
    this.#included = new Map(include.map((path) => [resolvePath(path, '') ?? path, { isFound: false }]))
  }

  async list(folder: string): Promise<Map<string, PackEntry>> {
    const known = this.#listed.get(folder)
    if (known) return known
    this.#signal?.throwIfAborted()
    const entries = await this.#source.list(folder)
    const listed = new Map(entries.map((entry) => [entry.path, entry]))
    this.#listed.set(folder, listed)
    return listed
  }

  async find(path: string): Promise<PackEntry | undefined> {
    const folder = folderOf(path)
    if (folder !== '' && (await this.find(folder))?.kind !== 'folder') return undefined
    return (await this.list(folder)).get(path)
  }

  #holdsIncluded = (folder: string): boolean => [...this.#included.keys()].some((path) => path.startsWith(`${folder}/`))

  /** What `include` names, and nobody has seen. */
  listUnknown = (): string[] => [...this.#included].flatMap(([path, { isFound }]) => (isFound ? [] : [path]))

  async walk(folder: string, walk: Walk): Promise<void> {
    const entries = await this.list(folder)
    if (walk === 'filtered')
      for (const name of IGNORE_FILES) {
        const file = entries.get(pathIn(folder, name))
        if (file?.kind === 'file') this.#rules.add(file.path, await readText(file))
      }
    for (const entry of entries.values()) await this.#take(entry, walk)
  }

  async #take(entry: PackEntry, walk: Walk): Promise<void> {
    const { kind, path } = entry
    const named = this.#included.get(path)
    if (named) named.isFound = true
    const why = named || walk === 'dropped' ? undefined : await this.#findWhyLeft(entry, walk)
    if (why !== undefined) await this.leave(entry, why)
    else if (walk === 'dropped' && !named) await this.#takeIncluded(entry)
    else if (!named && walk !== 'installed' && nameOf(path) === MODULES) this.modules.set(path, entry)
    else if (kind === 'file' || kind === 'link') this.files.set(path, entry)
    else if (kind === 'folder')
      await this.walk(path, named ? (path.split('/').includes(MODULES) ? 'installed' : 'whole') : walk)
    else await this.leave(entry, 'is not a readable file, folder or link')
  }

  /** Packs `node_modules`. */
  async keep(entry: PackEntry): Promise<void> {
    if (entry.kind === 'folder') await this.walk(entry.path, 'installed')
    else await this.#take(entry, 'installed')
  }

  /** Leaves out a path, but for what `include` names below it. */
  async leave(entry: PackEntry, why: string): Promise<void> {
    this.left.set(entry.path, why)
    await this.#takeIncluded(entry)
  }

  async #takeIncluded({ kind, path }: PackEntry): Promise<void> {
    if (kind === 'folder' && this.#holdsIncluded(path)) await this.walk(path, 'dropped')
  }

  async #findWhyLeft(entry: PackEntry, walk: Walk): Promise<string | undefined> {
    const { kind, path } = entry
    if (isSecretName(path)) return 'may hold secrets, by its name'
    const rule = walk === 'filtered' ? this.#rules.find(path, kind === 'folder') : undefined
    if (rule !== undefined) return rule
    if (kind === 'link' && resolvePath(entry.target, folderOf(path)) === undefined) return 'leads out of the folder'
    return kind === 'file' ? findSecret(entry) : undefined
  }

  /** Whether packages are directly in one of the folders, beside the caches of tools. */
  async hasModules(folders: readonly string[]): Promise<boolean> {
    for (const folder of folders) {
      const path = pathIn(folder, MODULES)
      const below = `${path}/`
      if ([...this.files.keys()].some((file) => file.startsWith(below) && file[below.length] !== '.')) return true
      const kind = this.modules.get(path)?.kind
      if (kind === 'link') return true
      if (kind !== 'folder') continue
      if ([...(await this.list(path)).keys()].some((child) => !nameOf(child).startsWith('.'))) return true
    }
    return false
  }

  /** The members of a JSON file that is packed; none if it is not, or is no JSON, of which the platform has a sentence. */
  async readJson(path: string): Promise<Record<string, unknown>> {
    const file = this.files.get(path)
    if (file?.kind !== 'file') return {}
    const text = await readText(file)
    try {
      return Object(JSON.parse(text)) as Record<string, unknown>
    } catch {
      return {}
    }
  }

  /**
   * Packs a path that a manifest names, and the links on the way to it. Returns the folder that it is a link to, if it is one.
   * by: the subject of the sentence if that cannot be.
   */
  async bring(path: string, by: string): Promise<string | undefined> {
    const missing = (): void => void this.refusals.push(`${by} names ${JSON.stringify(path)}, which is not there`)
    const rest = path.split('/').toReversed()
    let place = ''
    let isLinked = false
    for (let followed = 0; rest.length > 0;) {
      const segment = rest.pop() ?? ''
      if (segment === '' || segment === '.') continue
      if (segment === '..') {
        place = folderOf(place)
        continue
      }
      const entry = await this.find(pathIn(place, segment))
      if (!entry || (rest.length > 0 && entry.kind === 'file') || followed > LINKS_FOLLOWED_MAX) {
        missing()
        return undefined
      }
      const why = this.#included.has(entry.path) ? undefined : await this.#findWhyLeft(entry, 'whole')
      if (why !== undefined) {
        this.left.set(entry.path, why)
        this.refusals.push(`${by} names ${path}, and ${entry.path} ${why}: name it in include to pack it`)
        return undefined
      }
      if (entry.kind === 'link') {
        this.files.set(entry.path, entry)
        isLinked ||= rest.length === 0
        followed++
        rest.push(...entry.target.split('/').toReversed())
        continue
      }
      place = entry.path
      if (rest.length > 0) continue
      if (entry.kind === 'file') {
        this.files.set(place, entry)
        this.left.delete(place)
      } else if (isLinked) return place
      else await this.walk(place, 'installed')
    }
    return undefined
  }
}

/**
 * Packs what the Functions of Build Output name by `filePathMap`. Of a folder behind a link only what is named by itself, since
 * tools list links and files alike: a whole package for one of its files would be a hundred times as much. root: of the site.
 * fromArchive: a path in the folder by its path in the archive.
 */
async function bringMapped(
  planner: Planner,
  root: string,
  fromArchive: (path: string) => string | undefined,
): Promise<void> {
  const functions = fromArchive(pathIn(root, `${OUTPUT}/functions/`)) ?? ''
  const named = new Map<string, string>()
  for (const path of [...planner.files.keys()].filter(
    (file) => file.startsWith(functions) && file.endsWith('.func/.vc-config.json'),
  )) {
    const { filePathMap } = await planner.readJson(path)
    const by = `The filePathMap of ${path}`
    for (const written of new Set(Object.values(Object(filePathMap) as Record<string, unknown>))) {
      const inArchive = typeof written === 'string' ? resolvePath(written, root) : undefined
      const found = inArchive === undefined ? undefined : fromArchive(inArchive)
      if (found === undefined)
        planner.refusals.push(`${by} names ${JSON.stringify(written)}, which is outside of the folder that is packed`)
      else if (!named.has(found)) named.set(found, by)
    }
  }
  const linked: string[] = []
  for (const [path, by] of named) {
    const folder = await planner.bring(path, by)
    if (folder !== undefined) linked.push(folder)
  }
  const folders = new Set([...planner.files.keys()].flatMap((file) => upwards(folderOf(file))))
  for (const folder of linked) if (!folders.has(folder)) await planner.walk(folder, 'installed')
}

/**
 * Looks through a folder and decides what is packed, before anything is sent. Left out are what `.gitignore` and `.platformignore` in
 * it say, files with secrets by their names or content, links that lead out of it, and `node_modules` where the platform would not
 * use them. A folder that is itself `.vercel/output` or Nitro's `.output` is packed under that name.
 *
 * `refusals` of the plan has all that the platform would not take, such as files beyond a limit. Where the files are larger than the
 * archive may be, they are packed once to count it.
 * Throws an Error if `include` names what is not there, or a prebuilt folder has no output; and what the source throws.
 */
export async function planPack(source: PackSource, options: PackOptions = {}): Promise<PackPlan> {
  const { prebuilt = false, limits = {} } = options
  const root = resolvePath(options.rootDirectory?.replace(/^\/+/, '') ?? '', '')
  if (root === undefined) throw new Error(`The root directory ${options.rootDirectory} is outside of the folder`)
  const planner = new Planner(source, options)
  const has = (path: string): boolean => planner.files.has(path)
  const readJson = (path: string) => planner.readJson(path)
  const output = pathIn(root, OUTPUT)
  const hasOutput = (await planner.find(`${output}/config.json`))?.kind === 'file'
  if (prebuilt && hasOutput) {
    await planner.walk(output, 'whole')
    await planner.walk('', 'dropped')
  } else await planner.walk('', prebuilt ? 'whole' : 'filtered')

  const names = new Set((await planner.list('')).keys())
  const prefix = root === '' && !hasOutput ? await findPrefix(names, { has, readJson }) : ''
  if (prebuilt && !hasOutput && prefix !== `${OUTPUT}/`)
    throw new Error(`There is no ${output}/config.json: build the project first`)
  const fromArchive = (path: string): string | undefined =>
    path.startsWith(prefix) ? path.slice(prefix.length) : undefined
  const view: FolderView = {
    has: (path) => has(fromArchive(path) ?? ''),
    readJson: (path) => readJson(fromArchive(path) ?? ''),
    hasModules: await planner.hasModules(upwards(root)),
  }
  const shape = await findShape(view, root)
  const findWhyNot = (path: string): string | undefined => {
    const isKept =
      (shape === 'build-output' && `${prefix}${path}`.startsWith(`${output}/`)) ||
      (shape === 'worker' && path.startsWith(pathIn(root, '_worker.js/')))
    return isKept || shape === 'server' ? undefined : WHY_NO_MODULES[shape]
  }
  for (const entry of planner.modules.values()) {
    const why = findWhyNot(entry.path)
    if (why === undefined) await planner.keep(entry)
    else await planner.leave(entry, why)
  }
  if (shape === 'build-output') await bringMapped(planner, root, fromArchive)

  const [unknown] = planner.listUnknown()
  if (unknown !== undefined) throw new Error(`include names ${JSON.stringify(unknown)}, which is not there`)
  const sorted = [...planner.files.values()]
    .map((file) => ({ file, key: bytesOf(file.path) }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
  const files = sorted.map(({ file }) => file)
  const { tooLarge, refusals } = checkLimits(files, prefix, limits)
  const plan: PackPlan = {
    files,
    prefix,
    deflate: source.deflate,
    bytes: files.reduce((sum, file) => sum + (file.kind === 'file' ? file.bytes : 0), 0),
    left: [...planner.left].map(([path, why]) => ({ path, why })).toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    tooLarge,
    refusals: [...planner.refusals, ...refusals],
  }
  const archiveBytes = Math.min(limits.archiveBytes ?? Infinity, ZIP_BYTES_MAX)
  if (plan.refusals.length === 0) plan.refusals = await findOverRatio(files)
  if (plan.refusals.length === 0 && (await isArchiveLarger(plan, archiveBytes, options.signal)))
    plan.refusals = [`The archive has more than ${mebibytes(archiveBytes)}, which are allowed`]
  return plan
}

/** Sentences about files that the platform would take for a bomb. */
async function findOverRatio(entries: PackPlan['files']): Promise<string[]> {
  const why = `to less than 1/${RATIO_MAX} of the size, which the platform refuses`
  const files = entries.filter((entry) => entry.kind === 'file')
  const large = files.filter(({ bytes }) => bytes > RATIO_FREE_BYTES)
  const refusals: string[] = []
  for (const file of large) if (await isOverRatio([file], RATIO_MAX)) refusals.push(`${file.path} packs ${why}`)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const isOver = refusals.length === 0 && bytes > RATIO_FREE_BYTES && (await isOverRatio(files, RATIO_MAX))
  return isOver ? [`All files together pack ${why}`] : refusals
}

/** Whether the zip would be larger. Packs it to count its bytes if that is not certain without. */
async function isArchiveLarger(plan: Packable, limit: number, signal: AbortSignal | undefined): Promise<boolean> {
  if (archiveBytesMax(plan.files, plan.prefix) <= limit) return false
  let bytes = 0
  for await (const chunk of zipChunks(plan)) {
    signal?.throwIfAborted()
    bytes += chunk.length
    if (bytes > limit) return true
  }
  return false
}
