import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { hasCatchAll, readVercel } from './read-vercel.ts'
import { treeOf } from './tree-of.ts'

/** Reads a vercel.json: text, or a value that is written as JSON. */
async function read(content: unknown, files: Record<string, string> = {}) {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  const vercel = await readVercel(treeOf({ ...files, 'vercel.json': text }), '')
  if (vercel === undefined) throw new Error('There is a vercel.json')
  return vercel
}
const redirect = (source: string, destination: string, more: object = {}) => ({ source, destination, ...more })
const redirects = (...pairs: [string, string][]) => ({
  redirects: pairs.map(([source, destination]) => redirect(source, destination)),
})

test('vercel.json is read in the root directory alone', async () => {
  const tree = treeOf({ 'vercel.json': '{', 'apps/web/vercel.json': JSON.stringify(redirects(['/a', '/b'])) })
  expect(await readVercel(tree, 'apps/web')).toMatchObject({ routes: [{ src: '^/a$' }] })
  expect(await readVercel(tree, 'apps')).toBeUndefined()
})

test('routes stand in phases: spelling, routes, redirects and headers before the files, rewrites behind them', async () => {
  const { routes } = await read({
    rewrites: [redirect('/rw', '/x')],
    headers: [{ source: '/h', headers: [{ key: 'a', value: 'b' }] }],
    redirects: [redirect('/rd', '/x')],
    routes: [{ source: '/first', destination: '/x' }, { handle: 'filesystem' }, { src: '/behind', dest: '/x' }],
    trailingSlash: false,
  })
  expect(routes.map(({ src, handle }) => src ?? handle)).toEqual([
    '^/(.*)/$',
    '^/first$',
    '^/rd$',
    '^/h$',
    'filesystem',
    '^/behind$',
    '^/rw$',
  ])
})

test('unknown members are a warning each, and those of other hosts name what takes their place', async () => {
  const { routes, warnings } = await read({
    $schema: 'x',
    version: 2,
    buildCommand: 'make',
    functions: { 'api/*.js': { memory: 1 } },
    regions: ['fra1'],
    builds: [],
    ['x'.repeat(200)]: 1,
    redirects: [redirect('/a', '/b', { env: ['A'] }), redirect('/c', '/d', { env: ['B'], note: 1 })],
    routes: [{ src: '/m', middlewarePath: '_middleware', dest: '/n', color: 'red' }],
  })
  expect(routes[0]).toEqual({ src: '^/m$', dest: '/n' })
  expect(warnings).toEqual([
    'vercel.json: `functions` is ignored: a Function has the memory and the time of its plan, and is a worker (_worker.js), a server with a start script, or in Build Output.',
    'vercel.json: `regions` is ignored: Functions run where the edges of this platform are.',
    'vercel.json: `builds` is ignored: the build script in package.json builds, or `buildCommand`, and `outputDirectory` names the folder of pages.',
    `vercel.json: \`${'x'.repeat(100)}\` is ignored.`,
    'vercel.json: `env` of redirects is ignored.',
    'vercel.json: `note` of redirects is ignored.',
    'vercel.json: the middleware that routes name is ignored: only Build Output has any.',
    'vercel.json: `color` of routes is ignored.',
  ])
})

describe('what is refused', () => {
  const many = (length: number) => Array.from({ length }, (_, n) => redirect(`/old-${n}`, `/new-${n}`))
  test.each<[what: string, content: unknown, message: RegExp]>([
    ['no JSON', '{', /^vercel\.json is no JSON\.$/],
    ['null', 'null', /^vercel\.json: Invalid input: expected object, received null/],
    ['a list', '[]', /expected object, received array/],
    ['redirects that are no list', { redirects: 1 }, /^vercel\.json: redirects: .*expected array, received number/],
    ['a rewrite that is a number', { rewrites: [1] }, /^vercel\.json: rewrites\.0: /],
    ['a source that is a number', { rewrites: [{ source: 1, destination: '/' }] }, /rewrites\.0\.source: /],
    ['a destination that is missing', { redirects: [{ source: '/a' }] }, /redirects\.0\.destination: /],
    ['cleanUrls that is text', { cleanUrls: 'yes' }, /cleanUrls: .*expected boolean/],
    ['trailingSlash that is null', { trailingSlash: null }, /trailingSlash: .*expected boolean/],
    [
      'a header of a number',
      { headers: [{ source: '/', headers: [{ key: 'a', value: 1 }] }] },
      /headers\.0\.headers\.0/,
    ],
    ['routes that are an object', { routes: {} }, /routes: .*expected array/],
    ['a route without a source', { routes: [{}] }, /routes\[0\]: src: /],
    ['a route with an unknown phase', { routes: [{ handle: 'x' }] }, /routes\[0\]: handle: /],
    ['crons that are text', { crons: 'x' }, /crons: .*expected array/],
    ['a cron of nonsense', { crons: [{ path: '/', schedule: 'x' }] }, /crons\[0\]: "x" is no cron expression/],
    ['images without sizes', { images: {} }, /images\.sizes: /],
    ['a redirect with status 200', { redirects: [redirect('/a', '/b', { statusCode: 200 })] }, /has to be a redirect/],
    [
      'two statuses',
      { redirects: [redirect('/a', '/b', { statusCode: 301, permanent: true })] },
      /redirects\[0\] cannot define both/,
    ],
    ['a source that is no pattern', redirects(['/(', '/b']), /redirects\[0\] has invalid `source`/],
    ['a name that the source lacks', redirects(['/a', '/:b']), /redirects\[0\] has segment ":b" in `destination`/],
    [
      '101 headers of a rule',
      { headers: [{ source: '/', headers: Array.from({ length: 101 }, () => ({ key: 'a', value: '' })) }] },
      /headers\.0\.headers: .*<=100/,
    ],
    [
      '65 KB of headers of a rule',
      { headers: [{ source: '/', headers: [{ key: 'a', value: 'x'.repeat(65_536) }] }] },
      /longer than 64 KB/,
    ],
    ['a service', { rewrites: [{ source: '/a', destination: { service: 'x' } }] }, /leads to a service/],
    ['a NUL', redirects(['/a\0', '/b']), /"\/a\\u0000" holds a NUL/],
    ['half of a character', '{"redirects":[{"source":"/a","destination":"/\\ud800"}]}', /half of a character/],
    ['300 levels', `${'{"x":'.repeat(300)}1${'}'.repeat(300)}`, /nested more than 200 levels deep/],
    ['more than 8 MB', { x: 'y'.repeat(9_000_000) }, /larger than 8 MB/],
    [
      'a pattern worse than quadratic',
      redirects(['/:x((?:a+)+b)', '/b']),
      /^vercel\.json: redirects\[0\], "\/:x\(\(\?:a\+\)\+b\)", takes too long/,
    ],
    ['10,001 redirects', { redirects: many(10_001) }, /redirects: .*<=10000/],
    [
      '10,000 redirects and a rewrite',
      { redirects: many(10_000), rewrites: [redirect('/a', '/b')] },
      /more than 10000 rules/,
    ],
  ])('%s is refused with a sentence', async (_, content, message) => {
    await expect(read(content)).rejects.toMatchObject({
      name: 'UnusableOutput',
      message: expect.stringMatching(message) as string,
    })
  })
})

test('the tools that read rules write nothing to the console', async () => {
  const written = vi.spyOn(console, 'error')
  onTestFinished(() => written.mockRestore())
  expect((await read(redirects(['/:a-:b', '/:a/:b']))).routes).toHaveLength(1)
  expect(written).not.toHaveBeenCalled()
})

test('other work runs while ten thousand rules are read', async () => {
  const order: string[] = []
  const reading = read({ redirects: Array.from({ length: 10_000 }, (_, n) => redirect(`/o-${n}/:a`, `/n-${n}/:a`)) })
  setImmediate(() => order.push('other work'))
  const { routes } = await reading
  order.push('read')
  expect([order, routes.length]).toEqual([['other work', 'read'], 10_000])
})

test('redirects that lead back to themselves are left out, each with a warning', async () => {
  const circle = redirects(
    ['/a', '/b'],
    ['/b', '/c?x=1'],
    ['/c', '/A#x'],
    ['/to-circle', '/a'],
    ['/self/(.*)', '/self/x'],
    ['/Case', '/case'],
    ['/fine', '/elsewhere'],
    ['/away', 'https://b.example/away'],
    ['/:path*', '/$1/x'],
  )
  const { routes, warnings } = await read({
    redirects: [...circle.redirects, redirect('/host', '/host', { has: [{ type: 'host', value: 'old.example' }] })],
  })
  expect(routes.map(({ src }) => src)).toEqual([
    '^/to-circle$',
    '^/fine$',
    '^/away$',
    '^(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))?$',
    '^/host$',
  ])
  expect(warnings).toEqual(
    [
      [0, '/a'],
      [1, '/b'],
      [2, '/c'],
      [4, '/self/(.*)'],
      [5, '/Case'],
    ].map(([n, from]) => `vercel.json: redirects[${n}] is left out: the redirect from "${from}" leads back to itself.`),
  )
})

test.each<[boolean, object]>([
  [true, { rewrites: [redirect('/(.*)', '/index.html')] }],
  [true, { rewrites: [redirect('/:path*', '/index.html')] }],
  [true, { rewrites: [redirect('/((?!api/).*)', '/index.html')] }],
  [true, { routes: [{ src: '/.*', dest: '/index.html' }] }],
  [true, { redirects: [redirect('/:path*', 'https://b.example/:path*')] }],
  [false, { rewrites: [redirect('/app/(.*)', '/index.html')] }],
  [false, { rewrites: [redirect('/(.*)', '/x', { has: [{ type: 'host', value: 'a' }] })] }],
  [false, { headers: [{ source: '/(.*)', headers: [{ key: 'a', value: 'b' }] }] }],
  [false, { trailingSlash: false, cleanUrls: true }],
])('it is %s that every path is caught by %o', async (expected, config) => {
  expect(hasCatchAll(await read(config))).toBe(expected)
})
