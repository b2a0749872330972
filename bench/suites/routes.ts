import { createRequire } from 'node:module'
import type * as NextRouting from '@next/routing'
import type { OutputManifest, Route } from '@platform/build-output/manifest'
import { compileOutput } from '@platform/build-output/router'
import type { Suite, Trial } from '../suite.ts'

// Its exports are not visible to an import of Node's.
const { resolveRoutes } = createRequire(import.meta.url)('@next/routing') as typeof NextRouting

const FEW = 29
const MANY = 500
/** Matched in turn: a file, a page with a parameter, an index page, and nothing. */
const PATHS = ['/logo.png', '/blog/hello-world', '/', '/nothing/here']
const FILES = new Set(['logo.png', 'about'])
const BATCH = 2_000

/** Pages with parameters and redirects, half and half, to fill a list up. */
const filler = (count: number) =>
  Array.from({ length: count }, (_, n) =>
    n % 2 === 0
      ? { src: `^/section-${n}/(?<nxtPslug>[^/]+?)(?:/)?$`, dest: `/section-${n}/[slug]?nxtPslug=$nxtPslug` }
      : { src: `^/old-${n}(?:/)?$`, status: 308, headers: { Location: `/new-${n}` } },
  )

/** What `vercel build` writes for a Next.js application, in its order, with as many routes as are asked for. */
function manifestOf(count: number): OutputManifest {
  const hasRsc: Pick<Route, 'has'> = { has: [{ type: 'header', key: 'rsc', value: '1' }] }
  const fixed: Route[] = [
    { src: '^/?$', ...hasRsc, dest: '/index.rsc', headers: { vary: 'rsc' }, continue: true, override: true },
    { src: '^/((?!.+\\.rsc).+?)(?:/)?$', ...hasRsc, dest: '/$1.rsc', continue: true, override: true },
    { handle: 'filesystem' },
    { src: '/_next/data/(.*)', dest: '/_next/data/$1', check: true },
    { handle: 'resource' },
    { src: '/.*', status: 404 },
    { handle: 'miss' },
    { src: '/_next/static/(.+)', status: 404, check: true, dest: '/_next/static/not-found.txt' },
    { handle: 'rewrite' },
    { src: '^/blog/(?<nxtPslug>[^/]+?)(?:/)?$', dest: '/blog/[slug]?nxtPslug=$nxtPslug', check: true },
    { handle: 'hit' },
    { src: '/index(?:/)?', headers: { 'x-matched-path': '/' }, continue: true, important: true },
    { src: '/((?!index$).*?)(?:/)?', headers: { 'x-matched-path': '/$1' }, continue: true, important: true },
    { handle: 'error' },
    { src: '/.*', dest: '/404', status: 404 },
  ]
  const slash: Route = { src: '^(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))/$', status: 308, headers: { Location: '/$1' } }
  const first = filler(count - fixed.length - 1).map((route): Route => ({
    ...route,
    ...('dest' in route && { check: true }),
  }))
  return {
    version: 1,
    kind: 'build-output',
    routes: [slash, ...first, ...fixed],
    wildcard: [],
    site: null,
    functions: Object.fromEntries(['index', 'blog/[slug]'].map((path) => [path, { function: path }])),
  }
}

/** Does a batch of matches at a time, and lets the process breathe in between. */
function trial(name: string, match: (path: string) => unknown): Trial {
  return {
    name,
    pid: process.pid,
    async measure(seconds) {
      const startedAt = performance.now()
      let matches = 0
      while (performance.now() - startedAt < seconds * 1_000) {
        for (let n = 0; n < BATCH; n++) {
          const result = match(PATHS[n % PATHS.length] ?? '/')
          if (result instanceof Promise) await result
        }
        matches += BATCH
        await new Promise(setImmediate)
      }
      return { perSecond: (matches * 1_000) / (performance.now() - startedAt) }
    },
  }
}

function ours(count: number): Trial {
  const router = compileOutput(manifestOf(count))
  const hasFile = (path: string): boolean => FILES.has(path)
  const request = { method: 'GET', query: '', host: 'a.example', headers: {}, protocol: 'https' } as const
  return trial(`ours, ${count} routes`, (path) => router.route({ ...request, path }, hasFile))
}

function nextRouting(count: number): Trial {
  const translated = filler(count).map(({ src, dest, headers, status }) => ({
    sourceRegex: src,
    ...(dest === undefined ? {} : { destination: dest }),
    ...(headers === undefined ? {} : { headers }),
    ...(status === undefined ? {} : { status }),
  }))
  const routes = {
    beforeMiddleware: translated.filter(({ status }) => status !== undefined),
    middlewareMatchers: [],
    beforeFiles: [],
    afterFiles: [],
    dynamicRoutes: [
      ...translated.filter(({ status }) => status === undefined),
      { sourceRegex: '^/blog/(?<nxtPslug>[^/]+?)(?:/)?$', destination: '/blog/[slug]?nxtPslug=$nxtPslug' },
    ],
    onMatch: [],
    fallback: [],
  }
  const requestBody = new ReadableStream()
  const headers = new Headers()
  return trial(`@next/routing, ${count} routes`, (path) =>
    resolveRoutes({
      url: new URL(path, 'https://a.example'),
      buildId: 'build',
      basePath: '',
      requestBody,
      headers,
      pathnames: ['/', '/blog/[slug]', '/logo.png', '/about'],
      routes,
      invokeMiddleware: () => Promise.resolve({}),
    }),
  )
}

export const routes: Suite = {
  name: 'routes',
  work: `find what answers a path, among ${FEW} and ${MANY} routes; the column of CPU is microseconds a match`,
  prepare: () =>
    Promise.resolve({
      ours: ours(FEW),
      peers: [
        { ...ours(MANY), aim: {} },
        { ...nextRouting(FEW), aim: { cpuRatioMax: 1 } },
        { ...nextRouting(MANY), aim: { cpuRatioMax: 1 } },
      ],
    }),
}
