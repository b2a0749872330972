import { open } from 'node:fs/promises'
import type { StartScript } from '@platform/build-output/start-script'
import { dependsOn, type PackageJson, pathIn } from './manifests.ts'

const FOLDERS_SHOWN = 5
const COMMAND_SHOWN = 100
const SERVERS_SHOWN = 3
const LOOKED_INTO_MAX = 40
const READ_BYTES = 262_144

/** By name: what bundlers and frameworks call the entry of a server. */
const IN_SERVER_FOLDER =
  /(?:^|\/)(?:server|ssr)\/(?:.*\/)?(?:server|entry|entry-server|entry\.server|main|index|app)\.[cm]?js$/
const NAMED_SERVER = /(?:^|\/)(?:server|entry-server|entry\.server)\.[cm]?js$/
const NAMED_PROGRAM = /(?:^|\/)(?:main|index|app|entry|start|www)\.[cm]?js$/
/** Folders of frameworks that are no output, and those that nobody starts anything from. */
const NOT_OUTPUT = /(?:^|\/)(?:\.(?!output\/)[^/]+|node_modules|test|tests|coverage)\//
const LISTENS = /\.listen\(|\bcreateServer\(|\bserve\(/
const EXPORTS = /\bexport\s*(?:default\b|\{)|\bmodule\.exports\b|\bexports\.\w+\s*=/

/** A file that the build made and that looks like the entry of a server. */
export interface MadeServer {
  path: string
  /** It listens by itself; otherwise it exports something that another program has to serve. */
  listens: boolean
}

const shallowestFirst = (a: string, b: string): number => a.split('/').length - b.split('/').length || (a < b ? -1 : 1)

async function beginningOf(source: string): Promise<string> {
  await using file = await open(source)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, 0)
  return buffer.toString('latin1', 0, bytesRead)
}

/**
 * Files of a build that look like servers, by their names and their beginnings. made: paths of what the build made, relative to the
 * site; sourceOf: where their bytes are.
 */
export async function findMadeServers(
  made: readonly string[],
  sourceOf: (path: string) => string,
): Promise<MadeServer[]> {
  const candidates = made
    .filter((path) => !NOT_OUTPUT.test(path))
    .filter((path) => IN_SERVER_FOLDER.test(path) || NAMED_SERVER.test(path) || NAMED_PROGRAM.test(path))
    .toSorted(shallowestFirst)
  const servers: MadeServer[] = []
  for (const path of candidates.slice(0, LOOKED_INTO_MAX)) {
    const beginning = await beginningOf(sourceOf(path))
    const listens = LISTENS.test(beginning)
    const isServer = IN_SERVER_FOLDER.test(path) || NAMED_SERVER.test(path)
    if (isServer ? listens || EXPORTS.test(beginning) : listens && /\bhttp|express|fastify|hono|koa/.test(beginning))
      servers.push({ path, listens })
    if (servers.length === SERVERS_SHOWN) break
  }
  return servers
}

const countOf = (n: number, one: string): string => `${n} ${one}${n === 1 ? '' : 's'}`

/** Lockfiles that the installation wrote. */
const LOCKFILE = /^(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml)$/

/** The folders in which a build made most files, with their counts: `dist/client (12 files), dist/server (3 files)`. */
function describeFolders(made: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const path of made) {
    if (LOCKFILE.test(path)) continue
    const folder = path.split('/').slice(0, -1).slice(0, 2).join('/')
    counts.set(folder, (counts.get(folder) ?? 0) + 1)
  }
  const largest = [...counts].toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
  return largest
    .slice(0, FOLDERS_SHOWN)
    .map(([folder, count]) => `${folder === '' ? 'the folder of the site' : folder} (${countOf(count, 'file')})`)
    .join(', ')
}

/** What frameworks need for a server that can be deployed, by their packages. */
const FRAMEWORKS: readonly { has: readonly string[]; lacks: readonly string[]; sentence: string }[] = [
  {
    has: ['@tanstack/react-start', '@tanstack/solid-start'],
    lacks: ['nitro'],
    sentence:
      'TanStack Start makes a server by a plugin of vite.config: run `npm install nitro`, and add `nitro()` of "nitro/vite" to its plugins.',
  },
  {
    has: ['@sveltejs/kit'],
    lacks: ['@sveltejs/adapter-vercel', '@sveltejs/adapter-node', '@sveltejs/adapter-static'],
    sentence:
      'SvelteKit makes what can be deployed by an adapter of svelte.config.js: `npm install -D @sveltejs/adapter-vercel`.',
  },
  {
    has: ['astro'],
    lacks: ['@astrojs/node', '@astrojs/vercel'],
    sentence: 'Astro makes a server by an adapter: `npx astro add vercel` or `npx astro add node`.',
  },
  {
    has: ['@react-router/dev', '@react-router/node'],
    lacks: ['@react-router/serve'],
    sentence:
      'React Router’s server is started by another package: `npm install @react-router/serve`, and "start": "react-router-serve ./build/server/index.js".',
  },
  {
    has: ['next'],
    lacks: [],
    sentence:
      "Next.js before 16.2 needs output: 'standalone' in next.config, or a start script `next start` in package.json.",
  },
  {
    has: ['waku'],
    lacks: [],
    sentence: 'Waku is started by "start": "waku start" in package.json.',
  },
]

const adviceFor = (manifest: PackageJson): string | undefined =>
  FRAMEWORKS.find(
    ({ has, lacks }) =>
      has.some((name) => dependsOn(manifest, name)) && !lacks.some((name) => dependsOn(manifest, name)),
  )?.sentence

/** How a server that a build made is taken. root: of the site, below the archive. */
function adviceOnServer({ path, listens }: MadeServer, root: string): string {
  return listens
    ? `"start:prod": "node ${path}" in ${pathIn(root, 'package.json')} takes it`
    : 'it exports what another program has to serve: see the adapters of its framework'
}

export interface Made {
  /** Paths of what the build made, relative to the site. */
  paths: readonly string[]
  servers: readonly MadeServer[]
  manifest: PackageJson
  root: string
}

/** Why a build left nothing to deploy: what it made instead, and what takes it. */
export function explainNothing({ paths, servers, manifest, root }: Made): string {
  const advice = adviceFor(manifest)
  const sentences = [
    'The build succeeded, and left nothing to deploy: neither .vercel/output, nor a folder with an index.html, nor a server that package.json has a start script for.',
    `It made ${describeFolders(paths) || 'no file'}.`,
    ...servers.map(
      (server) =>
        `${server.path} looks like a server${advice === undefined || server.listens ? `: ${adviceOnServer(server, root)}` : ''}.`,
    ),
    ...(advice === undefined ? [] : [advice]),
    'vercel.json can name a folder of pages: { "outputDirectory": "…" }',
  ]
  return sentences.join(' ')
}

/** The folder of pages that is taken. Folders are from the archive's root. */
interface TakenFolder {
  folder: string
  /** Other folders of pages. */
  others: readonly string[]
  /** A start script that is not run. */
  unstarted?: StartScript | undefined
}

/** Sentences on what a build made beside the folder of pages that is taken: other folders of pages, and servers. */
export function explainLeftOut(
  { servers, manifest, root }: Made,
  { folder, others, unstarted }: TakenFolder,
): string[] {
  const advice = adviceFor(manifest)
  const path = pathIn(root, 'package.json')
  return [
    ...(unstarted === undefined
      ? []
      : [
          `${path}: scripts: ${unstarted.name} (${unstarted.command.slice(0, COMMAND_SHOWN)}) is not run, since the build made pages in ${folder}. If it is a server, let it be started by Node and its file: "start:prod": "node …".`,
        ]),
    ...servers.map((server) => {
      const how = server.listens || advice === undefined ? adviceOnServer(server, root) : advice
      return `The build also made ${server.path}, which looks like a server, and is not started: ${how}${how.endsWith('.') ? '' : '.'}`
    }),
    ...others
      .slice(0, FOLDERS_SHOWN)
      .map(
        (other) =>
          `The build also made ${other}, with an index.html, and ${folder} is taken: { "outputDirectory": "${root === '' ? other : other.slice(root.length + 1)}" } in ${pathIn(root, 'vercel.json')} takes it instead.`,
      ),
  ]
}
