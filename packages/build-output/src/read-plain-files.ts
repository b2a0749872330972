import type { PatternChecker } from './check-pattern.ts'
import { openContentTypes } from './content-type.ts'
import { compileHostname } from './host-pattern.ts'
import type { SiteRules } from './manifest.ts'
import { normalizeWrittenPath } from './normalize-path.ts'
import { type Asset, isServable, type Output, type Tree, UnusableOutput } from './output.ts'
import { parseHeaders, splitByHost } from './parse-headers.ts'
import { parseRedirects } from './parse-redirects.ts'
import { compilePath } from './route-static-site.ts'
import { findWithheld } from './withheld-files.ts'

const SITE_FILES = new Set(['_redirects', '_headers'])
const isOfWorker = (path: string): boolean => path === '_routes.json' || /^_worker\.js(?:\/|$)/.test(path)
/** The maximum number of rules, times the maximum length of a line. */
const SITE_FILE_BYTES_MAX = 4 * 1024 * 1024
const PAGE = /\.html?$/i

const APP_NOTE =
  'A single-page application: index.html is its only page, so it also answers addresses of pages that are not there. A 404.html switches that off.'

export interface PlainOptions {
  hasWorker?: boolean
  /** The domain of the platform's hostnames. */
  appsHostname?: string | undefined
  /** True if rules from elsewhere answer every path. */
  hasCatchAll?: boolean
}

/** Returns the patterns that are worse than quadratic: many names within one segment, or within one label. */
async function findSlow(
  written: Iterable<string>,
  compile: (written: string) => RegExp,
  checker: PatternChecker,
): Promise<ReadonlySet<string>> {
  const slow = new Set<string>()
  for (const each of written) if ((await checker.checkPattern(compile(each).source, '')).kind !== 'safe') slow.add(each)
  return slow
}

const findSlowPaths = (paths: Iterable<string>, checker: PatternChecker): Promise<ReadonlySet<string>> =>
  findSlow(paths, (path) => compilePath(normalizeWrittenPath(path)), checker)

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

/** The files that are served, and a sentence for each kind of those that are not. */
function readAssets(tree: Tree, below: string, hasWorker: boolean): { assets: Asset[]; warnings: string[] } {
  const sources = new Map<string, string>()
  let hidden = 0
  let installed = 0
  for (const source of tree.files.keys()) {
    if (!source.startsWith(below)) continue
    const path = source.slice(below.length)
    if (path === '' || SITE_FILES.has(path) || (hasWorker && isOfWorker(path))) continue
    if (/(?:^|\/)node_modules\//.test(path)) installed++
    else if (isServable(path)) sources.set(path, source)
    else hidden++
  }
  const { withheld, warnings } = findWithheld(new Set(sources.keys()))
  const typeOf = openContentTypes(sources.keys())
  const assets: Asset[] = []
  for (const [path, source] of sources)
    if (!withheld.has(path)) assets.push({ path, source, contentType: typeOf(path) })
  if (assets.length === 0 && !hasWorker) {
    const where = below === '' ? 'The archive' : `The directory ${below.slice(0, -1)}`
    throw new UnusableOutput([`${where} holds no file that can be served.`, ...warnings].join(' '))
  }
  if (installed > 0) warnings.unshift(`node_modules is left out, with its ${installed} files.`)
  if (hidden > 0) warnings.push(`Files of names that begin with a dot are left out: ${hidden}.`)
  return { assets, warnings }
}

/** True for a site whose one page is the index, without a rule that answers all paths. */
function isSinglePage(assets: readonly Asset[], redirects: SiteRules['redirects']): boolean {
  const pages = assets.filter(({ path }) => PAGE.test(path))
  return pages.length === 1 && pages[0]?.path === 'index.html' && !redirects.some(({ from }) => from === '/*')
}

/**
 * Reads the files of a site, `_redirects` and `_headers`. below: '' or a folder with a trailing slash.
 *
 * Throws UnusableOutput if there is nothing to serve.
 */
export async function readPlainFiles(
  tree: Tree,
  below: string,
  checker: PatternChecker,
  { hasWorker = false, appsHostname, hasCatchAll = false }: PlainOptions = {},
): Promise<Output> {
  const { assets, warnings } = readAssets(tree, below, hasWorker)

  const textOf = async (name: string): Promise<string> => {
    const file = tree.files.get(below + name)
    if (file === undefined) return ''
    if (file.bytes > SITE_FILE_BYTES_MAX)
      throw new UnusableOutput(`${below}${name} is larger than ${SITE_FILE_BYTES_MAX / 1024 / 1024} MB.`)
    return (await tree.read(below + name)).toString('utf8')
  }
  const redirects = parseRedirects(await textOf('_redirects'))
  const headers = parseHeaders(await textOf('_headers'), { appsHostname })
  const hasRoot = hasCatchAll || redirects.redirects.some(({ from }) => from === '/' || from === '/*')
  const missing = hasRoot || hasWorker ? undefined : whyNoIndex(assets)
  if (missing !== undefined) warnings.unshift(missing)
  const slow = await findSlowPaths(
    [...redirects.redirects.map(({ from }) => from), ...headers.headers.map(({ path }) => path)],
    checker,
  )
  const hosts = new Set(headers.headers.flatMap(({ host }) => host ?? []))
  const slowHosts = await findSlow(hosts, compileHostname, checker)
  for (const each of [...slow, ...slowHosts])
    warnings.push(`The rules for ${each} are left out: it takes too long to match some paths.`)
  const isApp = !hasWorker && !hasCatchAll && isSinglePage(assets, redirects.redirects)
  return {
    manifest: {
      version: 1,
      kind: 'static',
      routes: [],
      wildcard: [],
      site: {
        redirects: redirects.redirects.filter(({ from }) => !slow.has(from)),
        ...splitByHost(headers.headers.filter(({ path, host = '' }) => !slow.has(path) && !slowHosts.has(host))),
        ...(isApp && { isSinglePage: true }),
      },
      functions: {},
    },
    assets,
    functions: [],
    fallbacks: [],
    notes: isApp ? [APP_NOTE] : [],
    warnings: [...warnings, ...redirects.warnings, ...headers.warnings],
  }
}
