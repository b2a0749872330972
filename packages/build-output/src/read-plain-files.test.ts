import { describe, expect, test } from 'vitest'
import { readOutput, UnusableOutput } from './read-output.ts'
import { treeOf } from './tree-of.ts'
import { findCodeOfSource, findWithheld } from './withheld-files.ts'

const filesOf = (paths: readonly string[]): Record<string, string> =>
  Object.fromEntries(paths.map((path) => [path, '']))
const read = (paths: readonly string[], more: Record<string, string> = {}) =>
  readOutput(treeOf({ ...filesOf(paths), ...more }), '')

describe('code and configuration', () => {
  const configuration = [
    'vercel.json',
    'netlify.toml',
    'wrangler.toml',
    'wrangler.jsonc',
    'fly.toml',
    'render.yaml',
    'firebase.json',
    'Dockerfile',
    'Dockerfile.dev',
    'compose.yml',
    'docker-compose.yaml',
    'docker-compose.override.yml',
  ]
  test('configuration of other hosts at the root of a site is no asset, with a warning for each kind', async () => {
    const { assets, warnings } = await read(['index.html', ...configuration])
    expect(assets.map(({ path }) => path)).toEqual(['index.html'])
    expect(warnings).toEqual([
      'vercel.json is not served: it is configuration, and no page.',
      'netlify.toml is not served: it is configuration, and has no effect: use _redirects and _headers, or vercel.json.',
      'wrangler.toml, wrangler.jsonc is not served: it is configuration, and has no effect: a worker is _worker.js beside the files.',
      'fly.toml is not served: it is configuration, and a server is started here by the start script in package.json.',
      'render.yaml is not served: it is configuration, and a server is started here by the start script in package.json.',
      'firebase.json is not served: it is configuration, and has no effect: use _redirects and _headers, or vercel.json.',
      'Dockerfile, Dockerfile.dev is not served: it is configuration, and a server is started here by the start script in package.json.',
      'compose.yml, docker-compose.yaml, docker-compose.override.yml is not served: it is configuration, and a server is started here by the start script in package.json.',
    ])
  })

  test.each<[what: string, paths: string[], withheld: string[]]>([
    [
      'api/ beside vercel.json',
      [
        'vercel.json',
        'api/hello.js',
        'api/a/b.TS',
        'api/c.py',
        'api/c.js.map',
        'api/data.json',
        'api/index.html',
        'x/api/a.js',
      ],
      ['vercel.json', 'api/hello.js', 'api/a/b.TS', 'api/c.py', 'api/c.js.map'],
    ],
    ['api/ without vercel.json', ['api/hello.js', 'x/vercel.json'], []],
    [
      'functions/',
      ['functions/hi.js', 'functions/a/[[path]].ts', 'functions/a.css'],
      ['functions/hi.js', 'functions/a/[[path]].ts'],
    ],
    ['functions/ with a page', ['functions/hi.js', 'functions/map/index.html'], []],
    ['functions/ below the root', ['docs/functions/hi.js'], []],
    [
      'functions of Netlify',
      [
        'netlify/functions/n.js',
        'netlify/functions/n/n.mts',
        'netlify/edge-functions/e.ts',
        'netlify/other/a.js',
        'netlify/functions/index.html',
      ],
      ['netlify/functions/n.js', 'netlify/functions/n/n.mts', 'netlify/edge-functions/e.ts'],
    ],
    [
      'middleware',
      ['middleware.js', 'src/middleware.ts', 'middleware.css', 'a/middleware.js', 'middleware/a.js'],
      ['middleware.js', 'src/middleware.ts'],
    ],
    [
      'configuration below the root',
      ['docs/vercel.json', 'docs/Dockerfile', 'wrangler/a.js', 'my-compose.yaml', 'composer.json'],
      [],
    ],
  ])('a site with %s, of the files %j, withholds %j', (_, paths, expected) => {
    expect([...findWithheld(new Set(paths)).withheld].toSorted()).toEqual(expected.toSorted())
  })

  test('a warning names three files and counts the rest, and says what to use instead', () => {
    const paths = ['1', '2', '3', '4', '5'].map((name) => `functions/${name}.js`)
    expect(findWithheld(new Set(paths)).warnings).toEqual([
      'Code in functions/ is no Function here, and is not sent as a file (functions/1.js, functions/2.js, functions/3.js and 2 more): a worker, _worker.js beside the files, or a server with a start script in package.json, answers requests.',
    ])
  })

  test('the files behind a worker are withheld alike', async () => {
    const { assets, warnings } = await read(['_worker.js', 'wrangler.toml', 'functions/a.js'])
    expect([assets, warnings.length]).toEqual([[], 2])
  })

  test('a site of nothing else is refused, and the sentence says why', async () => {
    await expect(read(['Dockerfile'])).rejects.toThrow(UnusableOutput)
    await expect(read(['Dockerfile'])).rejects.toThrow(/holds no file that can be served\. Dockerfile is not served/)
  })

  test.each<[paths: string[], hasOwnMiddleware: boolean, warnings: RegExp[]]>([
    [
      ['package.json', 'vercel.json', 'api/a.js', 'middleware.ts'],
      false,
      [/^Code in api\/ .*\(api\/a\.js\)/, /^Middleware .*\(middleware\.ts\)/],
    ],
    [['package.json', 'vercel.json', 'api/a.js', 'middleware.ts'], true, [/^Code in api\//]],
    [['package.json', 'api/a.js', 'src/middleware.ts', 'functions/a.js'], false, []],
  ])(
    'source with the files %j and middleware of its own (%s) gets the warnings %j',
    (paths, hasOwnMiddleware, expected) => {
      expect(findCodeOfSource(paths, { hasOwnMiddleware })).toEqual(
        expected.map((pattern) => expect.stringMatching(pattern) as string),
      )
    },
  )
})

describe('a single-page application', () => {
  const note =
    'A single-page application: index.html is its only page, so it also answers addresses of pages that are not there. A 404.html switches that off.'
  test.each<[string, Record<string, string>]>([
    ['an index.html alone', { 'index.html': '', 'app.js': '' }],
    ['rules that are no catch-all', { 'index.html': '', _redirects: '/a/* /b\n/:x /c' }],
    ['other HTML that is withheld or hidden', { 'index.html': '', 'node_modules/a/a.html': '', '.a.html': '' }],
  ])('a site with %s is a single-page application, and the log says so', async (_, files) => {
    const { manifest, notes } = await readOutput(treeOf(files), '')
    expect([manifest.site?.isSinglePage, notes]).toEqual([true, [note]])
  })

  test.each<[string, Record<string, string>]>([
    ['two pages', { 'index.html': '', 'about.html': '' }],
    ['a page in a folder', { 'index.html': '', 'docs/index.htm': '' }],
    ['a 404.html', { 'index.html': '', '404.html': '' }],
    ['a 404.html in a folder', { 'index.html': '', 'docs/404.html': '' }],
    ['a 200.html', { 'index.html': '', '200.html': '' }],
    ['no index.html at the top', { 'app/index.html': '' }],
    ['another only page', { 'about.html': '' }],
    ['a rule for all paths', { 'index.html': '', _redirects: '/* /index.html 200' }],
    ['a redirect of all paths', { 'index.html': '', _redirects: '/* https://a.example/:splat 301' }],
    ['a worker', { 'index.html': '', '_worker.js': '' }],
  ])('a site with %s is no single-page application', async (_, files) => {
    const { manifest, notes } = await readOutput(treeOf(files), '')
    expect([manifest.site, notes]).toEqual([expect.not.objectContaining({ isSinglePage: true }), []])
  })
})

test('rules of _headers for hosts that the platform cannot have are left out with their lines', async () => {
  const text =
    'https://:project.pages.dev/*\n  x-a: b\nhttps://*.apps.example/*\n  x-a: c\nhttps://:a-:b-:c-:d-:e.apps.example/\n  x-a: d'
  const { manifest, warnings } = await readOutput(treeOf({ 'index.html': '', _headers: text }), '', {
    appsHostname: 'apps.example',
  })
  expect(manifest.site?.hostHeaders).toEqual([
    { host: '*.apps.example', path: '/*', set: [['x-a', 'c']], unset: [], after: 0 },
  ])
  expect(warnings).toEqual([
    'The rules for :a-:b-:c-:d-:e.apps.example are left out: it takes too long to match some paths.',
    '_headers line 1 is left out: no hostname of a site here matches :project.pages.dev.',
  ])
})

test('a .ts file is video in a site that has a playlist for it, and text in any other', async () => {
  const typesOf = async (paths: readonly string[]) =>
    (await read(paths)).assets.map(({ path, contentType }) => `${path} ${contentType}`)
  expect(await typesOf(['index.html', 'v/a.m3u8', 'v/a.ts', 'b.ts'])).toEqual([
    'index.html text/html; charset=utf-8',
    'v/a.m3u8 application/vnd.apple.mpegurl',
    'v/a.ts video/mp2t',
    'b.ts text/plain; charset=utf-8',
  ])
  const output = await readOutput(
    treeOf({
      '.vercel/output/config.json': '{"version":3}',
      '.vercel/output/static/v/a.m3u8': '',
      '.vercel/output/static/v/a.ts': '',
    }),
    '',
  )
  expect(output.assets.map(({ contentType }) => contentType)).toEqual(['application/vnd.apple.mpegurl', 'video/mp2t'])
})
