import { type Route as NextRoute, resolveRoutes } from '@next/routing'
import { describe, expect, test } from 'vitest'
import type { Route } from './manifest.ts'
import { buildOutputOf } from './short-answer.ts'

/** The same routes, for Next.js' own resolver and, as `vercel build` would write them, for ours. */
const routes: Record<
  'beforeMiddleware' | 'beforeFiles' | 'afterFiles' | 'dynamicRoutes' | 'onMatch' | 'fallback',
  NextRoute[]
> = {
  beforeMiddleware: [
    { sourceRegex: '^/headers(?:/(?<rest>.*))?$', headers: { 'x-rest': '$rest', 'x-all': '1' } },
    { sourceRegex: '^/(?<path>.+)/$', headers: { location: '/$path' }, status: 308 },
    { sourceRegex: '^/old/(?<slug>[^/]+)$', headers: { Location: '/blog/$slug' }, status: 307 },
    { sourceRegex: '^/away$', headers: { Location: 'https://b.example/x?y=1' }, status: 302 },
    {
      sourceRegex: '^/gate$',
      headers: { Location: '/login?next=$who' },
      status: 307,
      has: [{ type: 'cookie', key: 'who', value: '(?<who>[a-z]+)' }],
      missing: [{ type: 'header', key: 'x-token' }],
    },
  ],
  beforeFiles: [
    { sourceRegex: '^/first/(?<rest>.*)$', destination: '/second/$rest?from=first' },
    { sourceRegex: '^/second/(?<rest>.*)$', destination: '/blog/$rest?again=1' },
    { sourceRegex: '^/about$', destination: '/a', has: [{ type: 'query', key: 'v', value: '(?<v>\\d)' }] },
    { sourceRegex: '^/outside/(?<rest>.*)$', destination: 'https://b.example/$rest' },
    {
      sourceRegex: '^/host$',
      destination: '/a?lang=$lang',
      has: [{ type: 'host', value: '(?<lang>[a-z]{2})\\.a\\.example' }],
    },
  ],
  afterFiles: [
    { sourceRegex: '^/b$', destination: '/nowhere' },
    { sourceRegex: '^/posts/(?<id>\\d+)$', destination: '/blog/$id?kind=post' },
    { sourceRegex: '^/alias$', destination: '/a' },
    { sourceRegex: '^/late/(?<rest>.*)$', destination: '/missing/$rest?kept=1' },
    { sourceRegex: '^/missing/x$', destination: '/b' },
    { sourceRegex: '^/q$', destination: '/a?x=$id', has: [{ type: 'query', key: 'id' }] },
  ],
  dynamicRoutes: [
    { sourceRegex: '^/blog/(?<nxtPslug>[^/]+?)$', destination: '/blog/[slug]?nxtPslug=$nxtPslug' },
    { sourceRegex: '^/shop/(?<nxtPall>.+?)$', destination: '/shop/[...all]?nxtPall=$nxtPall' },
    {
      sourceRegex: '^/user/(?<nxtPa>[^/]+)/(?<nxtPab>[^/]+)$',
      destination: '/user/[a]/[ab]?nxtPa=$nxtPa&nxtPab=$nxtPab',
    },
  ],
  onMatch: [{ sourceRegex: '^/static/(?<file>.*)$', headers: { 'cache-control': 'immutable', 'x-file': '$file' } }],
  fallback: [{ sourceRegex: '^/fall/(?<rest>.*)$', destination: '/a?rest=$rest' }],
}
const pathnames = [
  '/',
  '/a',
  '/b',
  '/about',
  '/blog/[slug]',
  '/shop/[...all]',
  '/user/[a]/[ab]',
  '/static/x.js',
  '/gate',
  '/shop/fixed',
]

const translate = (list: NextRoute[], more: (route: NextRoute) => Partial<Route>): Route[] =>
  list.map((route) => ({
    src: route.sourceRegex,
    ...(route.destination === undefined ? {} : { dest: route.destination }),
    ...(route.headers === undefined ? {} : { headers: route.headers }),
    ...(route.status === undefined ? {} : { status: route.status }),
    ...(route.has === undefined ? {} : { has: route.has }),
    ...(route.missing === undefined ? {} : { missing: route.missing }),
    ...more(route),
  }))

const ours = buildOutputOf(
  [
    ...translate(routes.beforeMiddleware, () => ({ continue: true })),
    ...translate(routes.beforeFiles, () => ({ continue: true, override: true })),
    { handle: 'filesystem' },
    ...translate(routes.afterFiles, () => ({ check: true })),
    { handle: 'rewrite' },
    ...translate(routes.dynamicRoutes, () => ({ check: true })),
    { handle: 'resource' },
    ...translate(routes.fallback, () => ({ check: true })),
    { handle: 'hit' },
    ...translate(routes.onMatch, () => ({ continue: true })),
  ],
  [],
  pathnames.map((path) => (path === '/' ? 'index' : path.slice(1))),
)

const urls = [
  '/',
  '/a',
  '/A',
  '/a?x=1&y=2',
  '/a/',
  '/a/?x=1',
  '/blog/a/',
  '/b',
  '/blog/hello',
  '/blog/hello?nxtPslug=forged&x=1',
  '/blog/h%C3%A9llo',
  '/blog/a%20b',
  '/blog/a/b',
  '/blog',
  '/shop/a/b/c',
  '/shop/fixed',
  '/user/1/2',
  '/user/1',
  '/old/x',
  '/OLD/x',
  '/old/x?y=1',
  '/old/x/y',
  '/away',
  '/away?z=2',
  '/gate',
  '/gate?x=1',
  '/first/x',
  '/first/x?from=me',
  '/second/x',
  '/about',
  '/about?v=7',
  '/outside/x/y',
  '/host',
  '/posts/12',
  '/posts/ab',
  '/alias',
  '/alias?x=1',
  '/late/x',
  '/late/y',
  '/q',
  '/q?id=5',
  '/fall/x',
  '/headers',
  '/headers/deep/er',
  '/static/x.js',
  '/static/y.js',
  '/none',
]
const visitors: Record<string, Record<string, string>> = {
  plain: {},
  known: { cookie: 'who=eve' },
  trusted: { cookie: 'who=eve', 'x-token': '1' },
}

async function askNext(url: string, host: string, headers: Record<string, string>) {
  const result = await resolveRoutes({
    url: new URL(url, `http://${host}`),
    buildId: 'build',
    basePath: '',
    requestBody: new ReadableStream(),
    headers: new Headers({ host, ...headers }),
    pathnames,
    routes: { ...routes, middlewareMatchers: [] },
    invokeMiddleware: () => Promise.resolve({}),
  })
  const set = Object.fromEntries(result.resolvedHeaders ?? [])
  const { location, ...others } = set
  if (location !== undefined) return { redirect: location, status: result.status, headers: others }
  if (result.externalRewrite !== undefined) return { external: result.externalRewrite.href, headers: others }
  if (result.resolvedPathname === undefined) return { found: undefined }
  const path = result.resolvedPathname === '/' ? 'index' : result.resolvedPathname.slice(1)
  return { found: path, query: result.resolvedQuery, headers: others }
}

function askOurs(url: string, host: string, headers: Record<string, string>) {
  const answer = ours(url, { host, headers })
  const set = Object.fromEntries(answer.headers)
  if (answer.kind === 'redirect') return { redirect: answer.location, status: answer.status, headers: set }
  if (answer.kind === 'external') return { external: answer.url, headers: set }
  if (answer.kind !== 'function') return { found: undefined }
  return {
    found: answer.path,
    query: Object.fromEntries(new URL(answer.url, 'http://a').searchParams),
    headers: set,
  }
}

// One difference is intended: conditions have to match the whole value, as in Build Output; Next.js also tries them
// unanchored.
test('a condition matches the whole value', () => {
  expect(askOurs('/about?v=77', 'a.example', {})).toMatchObject({ found: 'about' })
})

describe.each(Object.entries(visitors))('answers what Next.js itself resolves, to a %s visitor', (_, headers) => {
  test.each(urls)('%s', async (url) => {
    expect(askOurs(url, 'a.example', headers)).toEqual(await askNext(url, 'a.example', headers))
    expect(askOurs(url, 'fr.a.example', headers)).toEqual(await askNext(url, 'fr.a.example', headers))
  })
})
