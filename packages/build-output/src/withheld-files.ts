const CODE = /\.(?:[cm]?[jt]s|[jt]sx|py|rb|go|rs|php)(?:\.map)?$/i
const PAGE = /\.html?$/i
const NAMED = 3

interface Kind {
  matches(path: string): boolean
  /** What is left out, and what to use here in its place. files: some of their names. */
  explain(files: string): string
}

const below =
  (...folders: string[]) =>
  (path: string): boolean =>
    CODE.test(path) && folders.some((folder) => path.startsWith(folder))

const WORKER =
  'a worker, _worker.js beside the files, or a server with a start script in package.json, answers requests'
const MIDDLEWARE = /^(?:src\/)?middleware\.[^/]+$/

const code: Readonly<Record<'api' | 'functions' | 'netlify' | 'middleware', Kind>> = {
  api: {
    matches: below('api/'),
    explain: (files) =>
      `Code in api/ is no Function here, and is not sent as a file (${files}): ${WORKER}, and so does Build Output.`,
  },
  functions: {
    matches: below('functions/'),
    explain: (files) => `Code in functions/ is no Function here, and is not sent as a file (${files}): ${WORKER}.`,
  },
  netlify: {
    matches: below('netlify/functions/', 'netlify/edge-functions/'),
    explain: (files) => `Code in netlify/ is no Function here, and is not sent as a file (${files}): ${WORKER}.`,
  },
  middleware: {
    matches: (path) => MIDDLEWARE.test(path) && CODE.test(path),
    explain: (files) =>
      `Middleware of Vercel does not run here, and is not sent as a file (${files}): a worker, _worker.js beside the files, sees requests first.`,
  },
}

const configuration = (pattern: RegExp, instead: string): Kind => ({
  matches: (path) => pattern.test(path),
  explain: (files) => `${files} is not served: it is configuration, ${instead}.`,
})
const SERVER = 'and a server is started here by the start script in package.json'
const RULES = 'and has no effect: use _redirects and _headers, or vercel.json'

/** Configuration at the root of a site. */
const configurations: readonly Kind[] = [
  configuration(/^vercel\.json$/, 'and no page'),
  configuration(/^netlify\.toml$/, RULES),
  configuration(/^wrangler\.[^/]+$/, 'and has no effect: a worker is _worker.js beside the files'),
  configuration(/^firebase\.json$/, RULES),
  configuration(/^fly\.toml$/, SERVER),
  configuration(/^render\.ya?ml$/, SERVER),
  configuration(/^Dockerfile(?:\.[^/]+)?$/i, SERVER),
  configuration(/^(?:docker-)?compose(?:\.[^/]+)?\.ya?ml$/, SERVER),
]

/** The kinds of files that a site never sends, by what else it has. paths: of all its files, below its root. */
function kindsFor(paths: ReadonlySet<string>): Kind[] {
  const kinds = [code.netlify, code.middleware, ...configurations]
  if (paths.has('vercel.json')) kinds.push(code.api)
  if (!paths.values().some((path) => path.startsWith('functions/') && PAGE.test(path))) kinds.push(code.functions)
  return kinds
}

function describe(kind: Kind, files: readonly string[]): string {
  const more = files.length > NAMED ? ` and ${files.length - NAMED} more` : ''
  return kind.explain(files.slice(0, NAMED).join(', ') + more)
}

/**
 * Returns the files of a site that are code or configuration of other hosts, which are not sent to visitors, and a warning for each kind
 * that says what to use in its place.
 *
 * paths: of the files that could be served, below the site's root.
 */
export function findWithheld(paths: ReadonlySet<string>): { withheld: ReadonlySet<string>; warnings: string[] } {
  const kinds = kindsFor(paths)
  const found = new Map<Kind, string[]>()
  for (const path of paths) {
    const kind = kinds.find(({ matches }) => matches(path))
    if (kind === undefined) continue
    const files = found.get(kind)
    if (files === undefined) found.set(kind, [path])
    else files.push(path)
  }
  return {
    withheld: new Set([...found.values()].flat()),
    warnings: [...found].map(([kind, files]) => describe(kind, files)),
  }
}

/**
 * Returns warnings about code beside the source of a site that its build does not take along: `api/` with a vercel.json, and middleware
 * at the root. A server, and Next.js, load their own.
 *
 * paths: below the source's root.
 */
export function findCodeOfSource(
  paths: Iterable<string>,
  { hasOwnMiddleware }: { hasOwnMiddleware: boolean },
): string[] {
  const all = new Set(paths)
  const inFolder = all.has('vercel.json') ? [...all].filter(code.api.matches) : []
  const middleware = hasOwnMiddleware
    ? []
    : [...all].filter((path) => !path.includes('/') && code.middleware.matches(path))
  return [
    ...(inFolder.length > 0 ? [describe(code.api, inFolder)] : []),
    ...(middleware.length > 0 ? [describe(code.middleware, middleware)] : []),
  ]
}
