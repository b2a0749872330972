import * as fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Answer, RouteRequest } from './answer.ts'
import { literalOf } from './compile-route.ts'
import { indexSpellings } from './file-names.ts'
import type { OutputManifest, Route } from './manifest.ts'
import { compileOutput } from './router.ts'

const routes: Route[] = [
  { src: '^/(?<path>.+)/$', status: 308, headers: { Location: '/$path' } },
  { src: '/.*', headers: { 'x-a': '$0' }, continue: true },
  { src: '^/a(?<rest>.*)$', dest: '/b$rest?c=$rest&d=$1', check: true },
  { src: '/m(.*)', middlewarePath: 'm', continue: true },
  { handle: 'filesystem' },
  { src: '/p/(.*)', dest: 'https://b.example/$1' },
  { handle: 'rewrite' },
  { src: '^/(?<x>[^/]+)/(?<y>.+)$', dest: '/fn?x=$x&y=$y', check: true },
  { handle: 'miss' },
  { src: '/(.*)', dest: '/$1.html' },
  { handle: 'error' },
  { src: '/.*', dest: '/404', status: 404 },
]
const manifests: OutputManifest[] = [
  {
    version: 1,
    kind: 'build-output',
    routes,
    wildcard: [],
    site: null,
    functions: { fn: { function: 'fn' }, m: { function: 'm' } },
  },
  {
    version: 1,
    kind: 'static',
    routes: [],
    wildcard: [],
    functions: {},
    site: {
      redirects: [
        { from: '/a/*', to: '/:splat', status: 301 },
        { from: '/b/:x', to: '/c/:x', status: 200 },
        { from: '/*', to: '/index.html', status: 200 },
      ],
      headers: [{ path: '/*', set: [['x-a', ':splat']], unset: [] }],
    },
  },
]

const long = `/${'a'.repeat(2_000)}`
const requestFor = (path: string): RouteRequest => ({
  method: 'GET',
  path,
  query: '',
  host: 'a.example',
  headers: {},
  protocol: 'http',
})

describe('a request that routes multiply is 414, and costs no more than a limit:', () => {
  const many = (count: number, route: (n: number) => Route): Route[] =>
    Array.from({ length: count }, (_, n) => route(n))
  const multiplying: Record<string, Route[]> = {
    paths: many(2, () => ({ src: '/(.*)', dest: '/$1$1$1$1', continue: true })),
    'paths, a little each time': many(5, () => ({ src: '/(.*)', dest: '/$1$1', continue: true })),
    queries: many(60, (n) => ({ src: '/(.*)', dest: `/x?q${n}=$1`, continue: true })).map((route) => ({
      ...route,
      dest: `$0${route.dest?.slice(2)}`,
    })),
    headers: many(50, (n) => ({ src: '/(.*)', headers: { [`x-${n}`]: '$1' }, continue: true })),
    'headers of what is asked': many(50, (n) => ({
      src: '/(.*)',
      transforms: [{ type: 'request.headers', op: 'set', target: { key: `x-${n}` }, args: '$1' }],
      continue: true,
    })),
  }
  test.each(Object.entries(multiplying))('%s', (_, multiplied) => {
    const router = compileOutput({
      version: 1,
      kind: 'build-output',
      routes: multiplied,
      wildcard: [],
      site: null,
      functions: {},
    })
    expect(router.route(requestFor(long), () => false)).toMatchObject({ kind: 'status', status: 414 })
    expect(router.route(requestFor('/a'), () => false)).toMatchObject({ kind: 'not-found' })
  })

  const site = { redirects: [], headers: [] }
  test.each([
    [
      'headers of a site',
      {
        ...site,
        headers: [
          { path: '/:a', set: many(40, () => ({})).map((_, n): [string, string] => [`x-${n}`, ':a']), unset: [] },
        ],
      },
    ],
    ['a redirect of a site', { ...site, redirects: [{ from: '/:a', to: `/b/${':a'.repeat(900)}`, status: 301 }] }],
  ])('%s', (_, rules) => {
    const router = compileOutput({ version: 1, kind: 'static', routes: [], wildcard: [], site: rules, functions: {} })
    expect(router.route(requestFor(long), () => false)).toMatchObject({ kind: 'status', status: 414 })
    expect(router.route(requestFor('/a'), () => false)).not.toMatchObject({ status: 414 })
  })
})

test('ten thousand patterns that are quadratic keep an edge for a second, and the request is 414', () => {
  const router = compileOutput({
    version: 1,
    kind: 'build-output',
    routes: Array.from({ length: 10_000 }, (_, n) => ({ src: `/.*a.*b${n}` })),
    wildcard: [],
    site: null,
    functions: {},
  })
  let looks = 0
  const clock = vi
    .spyOn(process, 'threadCpuUsage')
    .mockImplementation(() => ({ user: looks++ * 60_000, system: looks * 40_000 }))
  onTestFinished(() => clock.mockRestore())
  expect(router.route(requestFor(long), () => false)).toMatchObject({ kind: 'status', status: 414 })
  // One at the start, and ten that find at most a second gone; half a minute and more pass without a limit.
  expect(looks).toBe(12)
  clock.mockRestore()
  expect(router.route(requestFor('/a'), () => false)).toMatchObject({ kind: 'not-found' })
})

test('a site’s own routes answer a request whose Function ran for longer than routing may take', () => {
  const router = compileOutput({
    version: 1,
    kind: 'build-output',
    routes: [
      { src: '/.*', middlewarePath: 'm', continue: true },
      ...Array.from({ length: 20 }, (_, n) => ({ src: `/other${n}` })),
      { handle: 'error' },
      ...Array.from({ length: 20 }, (_, n) => ({ src: `/.*${n}` })),
      { src: '/.*', dest: '/500', status: 502 },
    ],
    wildcard: [],
    site: null,
    functions: { m: { function: 'm' }, fn: { function: 'fn' } },
  })
  let user = 0
  const clock = vi.spyOn(process, 'threadCpuUsage').mockImplementation(() => ({ user, system: 0 }))
  onTestFinished(() => clock.mockRestore())
  const answer = router.route(requestFor('/fn'), (name) => name === '500')
  if (answer.kind !== 'middleware') throw new Error(`No middleware, but ${answer.kind}`)
  user += 2_000_000
  const called = answer.resume({ status: 200, headers: [['x-middleware-next', '1']] })
  if (called.kind !== 'function') throw new Error(`No Function, but ${called.kind}`)
  user += 2_000_000
  expect(called.fail?.(502)).toMatchObject({ kind: 'asset', path: '500', status: 502 })
})

test('an encoded slash does not become one in a redirect, whatever alphabet its pattern has', () => {
  const router = compileOutput({
    version: 1,
    kind: 'build-output',
    routes: [{ src: '^/é/(.*)$', headers: { Location: '/$1' }, status: 308 }],
    wildcard: [],
    site: null,
    functions: {},
  })
  const locationFor = (path: string) => router.route(requestFor(path), () => false)
  expect(locationFor('/%C3%A9/b')).toMatchObject({ kind: 'redirect', location: '/b' })
  expect(locationFor('/%C3%A9/%2Fevil.example')).toMatchObject({ location: '/%2Fevil.example' })
  expect(locationFor('/%C3%A9/%5cevil.example')).toMatchObject({ location: '/%5Cevil.example' })
})

const anyPath = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc
    .array(
      fc.constantFrom(
        '/',
        '.',
        '..',
        '%2e',
        '%2F',
        '%5C',
        '%25',
        '%',
        '\\',
        'a',
        'b',
        'm',
        'p',
        '%41',
        '%C3',
        '\u00e9',
        ' ',
        '\n',
        '$1',
      ),
    )
    .map((parts) => `/${parts.join('')}`),
)
const anyRequest: fc.Arbitrary<RouteRequest> = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS'),
  path: anyPath,
  query: fc.string({ maxLength: 30 }),
  host: fc.constantFrom('a.example', 'a.example:80', ''),
  headers: fc.record({ cookie: fc.string(), accept: fc.string() }),
  protocol: fc.constantFrom('http', 'https'),
})

describe.each(manifests)('whatever is asked of $kind', (manifest) => {
  const router = compileOutput(manifest)

  test('no file is answered that is not there, and no header or address is broken', () => {
    const judge = (answer: Answer, denied: ReadonlySet<string>): void => {
      if (answer.kind === 'asset' || answer.kind === 'not-found') {
        if (answer.path !== undefined) expect(denied).not.toContain(answer.path)
        expect(answer.path ?? '').not.toMatch(/^\/|(?:^|\/)\.\.?(?:\/|$)|\\/)
      }
      if (answer.kind === 'redirect') {
        expect(answer.location).toMatch(/^[\t\x20-\x7E]*$/)
        expect(answer.location).not.toMatch(/^\/[/\\]/)
      }
      if (answer.kind === 'function') expect(answer.url).toMatch(/^\/(?!\/)[^#]*$/)
      if (answer.kind === 'external') expect(new URL(answer.url).host).toBe('b.example')
      for (const [name, value] of answer.headers) {
        expect(name).toBe(name.toLowerCase())
        expect(value).toMatch(/^[\t\x20-\x7E]*$/)
      }
      if (answer.kind === 'middleware')
        judge(answer.resume({ status: 200, headers: [['x-middleware-next', '1']] }), denied)
    }
    fc.assert(
      fc.property(anyRequest, fc.func(fc.boolean()), (request, decide) => {
        const denied = new Set<string>()
        const hasFile = (path: string): boolean => {
          const has = decide(path)
          if (!has) denied.add(path)
          return has
        }
        judge(router.route(request, hasFile), denied)
      }),
      { numRuns: 3_000 },
    )
  })

  test('paths of more than 2,048 bytes are too long, whatever their letters', () => {
    const ask = (path: string) =>
      router.route({ method: 'GET', path, query: '', host: 'a', headers: {}, protocol: 'http' }, () => false)
    expect(ask(`/${'a'.repeat(2_048)}`)).toMatchObject({ kind: 'status', status: 414 })
    expect(ask(`/${'é'.repeat(1_024)}`)).toMatchObject({ kind: 'status', status: 414 })
    expect(ask(`/${'a'.repeat(2_047)}`)).not.toMatchObject({ status: 414 })
  })
})

test.each([
  ['^/blog/(.*)$', '/blog/'],
  ['^/?$', ''],
  ['^/a+$', '/a'],
  ['^/ab*$', '/a'],
  ['^/a|/b$', ''],
  ['^/(?:a|b)$', '/'],
  ['^/[a|b]$', '/'],
  ['^/a\\.b$', '/a.b'],
  ['^/a\\d$', '/a'],
  ['^/a{2}$', '/'],
  ['^/a b$', '/a'],
  ['^/caf\u00e9$', '/caf'],
  ['^/a%20b$', '/a'],
  ['^(?:/x)?$', ''],
])('all that matches %s begins with %j', (source, prefix) => {
  expect(literalOf(source).prefix).toBe(prefix)
})

describe('names with accents', () => {
  const composed = (text: string): string => text.normalize('NFC')
  const decomposed = (text: string): string => text.normalize('NFD')
  const encoded = (path: string): string => encodeURI(path)
  const noRules = { redirects: [], headers: [] }
  const staticSite = (site: NonNullable<OutputManifest['site']> = noRules): OutputManifest => ({
    version: 1,
    kind: 'static',
    routes: [],
    wildcard: [],
    functions: {},
    site,
  })
  const ask = (manifest: OutputManifest, files: readonly string[], path: string): Answer =>
    compileOutput(manifest, indexSpellings(files)).route(requestFor(encoded(path)), (name) => files.includes(name))

  test.each([
    ['/é.png', 'é.png'],
    ['/é/ü', 'é/ü.html'],
    ['/é/', 'é/index.html'],
    ['/100%25é', '100%é.html'],
  ])('a file whose name has an accent is found by %s in either Unicode normal form', (path, file) => {
    const request = path.replace('%25', '%')
    for (const [stored, asked] of [
      [composed(file), decomposed(request)],
      [decomposed(file), composed(request)],
      [decomposed(file), decomposed(request)],
    ] as const)
      expect(ask(staticSite(), ['index.html', stored], asked)).toMatchObject({ kind: 'asset', path: stored })
  })

  test('a file whose name has an accent is found by its exact name first, and by no other accent', () => {
    const files = [decomposed('é.txt'), composed('é.txt')]
    for (const file of files) expect(ask(staticSite(), files, `/${file}`)).toMatchObject({ path: file })
    // Half of it in each form: the composed one stands for all others.
    expect(
      ask(staticSite(), [decomposed('éé.txt'), composed('éé.txt')], `/${composed('é')}${decomposed('é')}.txt`),
    ).toMatchObject({
      path: composed('éé.txt'),
    })
    expect(ask(staticSite(), files, '/è.txt')).toMatchObject({ kind: 'not-found' })
  })

  test('a file whose name has an accent is found before the page that stands for all missing ones, and has the headers of its own name', () => {
    const site = {
      redirects: [{ from: '/*', to: '/index.html', status: 200 }],
      headers: [{ path: composed('/é.png'), set: [['x-own', '1']] as [string, string][], unset: [] }],
    }
    expect(ask(staticSite(site), ['index.html', composed('é.png')], decomposed('/é.png'))).toMatchObject({
      kind: 'asset',
      path: composed('é.png'),
      headers: [['x-own', '1']],
    })
  })

  test('a page whose name has an accent is that of a missing path in its folder, in either form', () => {
    const files = ['index.html', decomposed('é/404.html')]
    expect(ask(staticSite(), files, composed('/é/missing'))).toMatchObject({
      kind: 'not-found',
      path: decomposed('é/404.html'),
    })
  })

  test('a file whose name has an accent is not found past the redirects and the middleware of either spelling', () => {
    const guarded = (own: string): OutputManifest => ({
      ...staticSite(),
      kind: 'build-output',
      site: null,
      routes: [{ src: `^/${own}/(.*)$`, middlewarePath: 'guard', continue: true }, { handle: 'filesystem' }],
      functions: { guard: { function: 'guard' } },
    })
    const file = composed('é/secret.txt')
    for (const spelling of [composed, decomposed]) {
      const seen: string[] = []
      let answer = ask(guarded(spelling('é')), [file], decomposed('/é/secret.txt'))
      while (answer.kind === 'middleware') {
        seen.push(answer.url)
        answer = answer.resume({ status: 200, headers: [['x-middleware-next', '1']] })
      }
      expect(seen).toEqual([encodeURI(`/${spelling('é/secret.txt')}`)])
      expect(answer).toMatchObject({ kind: 'asset', path: file })
    }
    const moved = staticSite({ redirects: [{ from: composed('/é'), to: '/new', status: 301 }], headers: [] })
    expect(ask(moved, [decomposed('é.html')], composed('/é'))).toMatchObject({ kind: 'redirect', location: '/new' })
    expect(ask(moved, [composed('é.html')], decomposed('/é'))).toMatchObject({ kind: 'redirect', location: '/new' })
  })

  test('a file whose name has an accent costs a path of plain letters no look-up', () => {
    const spellingOf = vi.fn<(path: string) => string | undefined>()
    compileOutput(staticSite(), spellingOf).route(requestFor('/missing.png'), () => false)
    expect(spellingOf).not.toHaveBeenCalled()
    expect(indexSpellings(['index.html', 'a/b.png'])).toBeUndefined()
  })
})
